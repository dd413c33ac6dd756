"""`kerasseq generate`, `inspect`, `data` and `info`."""

import json
import os
import pathlib

import numpy as np
import pytest

from kerasseq.cli import figures, inspect, main
from tests.cli.conftest import snapshot, without_status
from tests.processes import run_python

pytestmark = pytest.mark.once("the command line")


def test_generate_with_a_seed_is_repeatable(command, trained):
    words = ["generate", trained[0], "--prompt", "gate ", "--length", 50, "--seed"]
    texts = [command(*words, seed).out for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("gate ") and len(texts[0]) == len("gate ") + 50 + 1
    found = json.loads(command(*words, 0, "--json").out)
    assert found == {"prompt": "gate ", "text": texts[0][:-1]}


def test_generate_without_a_prompt(command, trained):
    done = command("generate", trained[0], "--length", 500, "--temperature", 0,
                   "--top-k", 3, "--top-p", 0.9)  # fmt: skip
    assert len(done.out) == 501 and done.err == ""


def test_unknown_characters_are_reported(command, trained):
    done = command("generate", trained[0], "--prompt", "Gate Ω", "--length", 3)
    assert done.out.startswith("Gate Ω")
    assert "2 of the 6 characters of the prompt" in done.err
    assert "'G' ×1" in done.err and "'Ω' ×1" in done.err


def test_generate_from_a_file(command, refused, trained, tmp_path):
    assert len(command("generate", trained[0] / "model.keras", "--length", 3).out) == 4
    (tmp_path / "a.txt").write_text("x")
    assert "is not a .keras file" in refused("generate", "a.txt")


def test_inspect(command, trained, tmp_path, drawn):
    done = command(
        "inspect", trained[0], "--text", "gate [bold] é", "--output-dir", "o"
    )
    out = done.out
    for words in ("peephole_lstm/cell/peephole_kernel", "(3, 5)", "(any, any, 5)",
                  "peephole_lstm/forget_gate", "peephole_lstm/cell_state"):  # fmt: skip
        assert words in out
    found = snapshot(tmp_path / "o")
    assert set(found) == {"gates.png", "gradient_flow.png"}
    assert all(content.startswith(b"\x89PNG") for content in found.values())
    done = command(
        "inspect", trained[0], "--text", "gate", "--output-dir", "o", "--json"
    )
    found = json.loads(done.out)
    assert found["parameters"] == trained[1]["parameters"] and "Gates" in done.err
    assert sum(each["parameters"] for each in found["weights"]) == found["parameters"]
    assert "peephole_lstm/input_gate" in [each["gate"] for each in found["gates"]]
    assert 0 < found["gates"][0]["mean"] < 1
    assert sorted(found["figures"]) == ["o/gates.png", "o/gradient_flow.png"]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("mamba", "gates.png"),
        ("gpt", "attention.png"),
        *(
            pytest.param(
                name,
                "attention.png",
                marks=pytest.mark.full("another mixer", cheap=False),
            )
            for name in ("gla", "s4d")
        ),
    ],
)
def test_inspect_layers_beyond_attention(command, tmp_path, drawn, name, other):
    from kerasseq import layers, models, text

    tokenizer = text.CharacterTokenizer().fit("gate of the block")
    if name == "mamba":
        model = models.Mamba(tokenizer, num_layers=2, hidden_dim=17)
    elif name == "gpt":  # with fewer places than the text
        layer = layers.GatedLinearAttention(1, 4)
        sizes = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2}
        sizes |= {"max_sequence_length": 5, "attention": [layer, layer]}
        model = models.GPT(tokenizer, **sizes)
    else:
        model = models.LanguageModel(name, tokenizer, units=8, num_layers=2)
    model.save(tmp_path / "m.keras")
    done = command("inspect", "m.keras", "--text", "the gate", "--output-dir", "o")
    assert done.out.count("not within") + done.out.count("before the end") == 2
    assert set(snapshot(tmp_path / "o")) == {"gradient_flow.png", other}


def test_inspect_experts(command, tmp_path, drawn):
    """Those of the last layer, or of --layer; with fewer places than the text."""
    from kerasseq import layers, models, text

    tokenizer = text.CharacterTokenizer().fit("gate of the block")
    mixture = layers.MixtureOfExperts(5, 3, name="experts")
    sizes = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "max_sequence_length": 7}
    models.GPT(tokenizer, **sizes, feed_forward=mixture).save(tmp_path / "m.keras")
    words = ["inspect", "m.keras", "--text", "the gate", "--output-dir"]
    command(*words, "o")
    command(*words, "p", "--layer", "block_0/experts")
    one, two = snapshot(tmp_path / "o"), snapshot(tmp_path / "p")
    assert set(one) == set(two) == {"attention.png", "experts.png"}
    assert one["experts.png"] != two["experts.png"]


def test_inspect_a_file(command, trained, text_path, drawn):
    done = command("inspect", trained[0], "--file", text_path, "--output-dir", "o")
    assert "the first 200 are shown" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", ""], "is empty"),
        (["--text", "a"], "two characters"),
        (["--file", "no.txt"], "There is no file"),
        (["--text", "gate", "--layer", "peephole_lsm"], 'Did you mean "peephole_lstm"'),
        (["--text", "gate", "--file", "a"], "not allowed with"),
    ],
)
def test_inspect_wrong_arguments(refused, trained, words, message, tmp_path, drawn):
    assert message in refused("inspect", trained[0], *words, "--output-dir", tmp_path)
    assert not list(tmp_path.iterdir())


def test_inspect_without_matplotlib(command, trained):
    done = command("inspect", trained[0], "--output-dir", "o", code=2)
    assert "forget_gate" in done.out
    assert "pip install matplotlib" in done.err


@pytest.mark.parametrize(
    ("norms", "words"),
    [
        ([1e-4, 1e-3, 0.2, 1.0], "2 steps before the end"),
        ([1e-4, 1.0], "1 step before the end"),
        ([0.5, 0.7, 1.0], "not within 3 steps"),
    ],
)
def test_vanishing_gradient_is_described(norms, words):
    assert inspect.vanishing(np.array(norms)) == words


def test_gradient_flow_is_that_of_the_last_prediction(trained):
    import keras

    import kerasseq

    model = kerasseq.load_model(trained[0] / "model.keras")
    ids = model.tokenizer.encode("gate state")
    flow = figures.flow_of_last_prediction(model, ids)
    # The gradient at the last step: of the softmax, through the output weights alone.
    p = keras.ops.convert_to_numpy(model(ids[None, :-1]))[0, -1]
    p = np.exp(p - p.max()) / np.exp(p - p.max()).sum()
    p[ids[-1]] -= 1
    weights = keras.ops.convert_to_numpy(model.get_layer("logits").kernel)
    expected = np.linalg.norm(weights @ p)
    assert flow["peephole_lstm/hidden_state"][-1] == pytest.approx(expected, rel=1e-4)


def test_data(command):
    out = command("data").out
    for words in ("python-reference", "NOAA", "PSF", "public domain", "size"):
        assert words in out
    listed = json.loads(command("data", "--json").out)
    assert {"name", "size", "source", "license"} <= set(listed[0])
    words = ["data", "parentheses", "--count", 3, "--seed"]
    samples = [command(*words, seed).out for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    assert len(samples[0].splitlines()) == 3
    assert len(json.loads(command("data", "ar", "--json").out)) == 5
    pairs = command("data", "reverse", "--count", 7).out.splitlines()
    assert all(a == b[::-1] for a, b in (line.split("\t") for line in pairs))


def test_info(command):
    import keras

    found = json.loads(command("info", "--json").out)
    assert found["backend"] == keras.backend.backend() in found["backends"]
    assert found["devices"] and found["versions"]["keras"] == keras.__version__
    assert "devices: " + found["devices"][0] in command("info").out


def test_info_says_when_llvmlite_is_missing(monkeypatch, command):
    from kerasseq.cli import info

    assert json.loads(command("info", "--json").out)["missing"] == []
    found = info.packages.is_installed
    monkeypatch.setattr(
        info.packages, "is_installed", lambda n: n != "llvmlite" and found(n)
    )
    import keras

    shown = "llvmlite is not installed" in command("info").out.replace("\n", " ")
    assert shown == (keras.backend.backend() == "torch")


def test_info_without_a_backend():
    code = "from kerasseq.cli import main\nassert main(['info']) == 0"
    out = run_python(code, only=[], KERAS_BACKEND=None).stdout
    assert "backends installed: none" in out and "pip install torch llvmlite" in out


def test_backend_option_wins_over_the_environment():
    """And stderr has no log lines of the backend."""
    chosen = os.environ.get("KERAS_BACKEND", "tensorflow")
    code = "import sys\nfrom kerasseq.cli import main\nsys.exit(main(sys.argv[1:]))"
    done = run_python(
        code, "info", "--json", "--backend", chosen, KERAS_BACKEND="numpy"
    )
    assert json.loads(done.stdout)["backend"] == chosen
    assert without_status(done.stderr) == ""


def test_python_m_kerasseq(tmp_path):
    code = "import runpy, sys\nsys.argv[1:] = ['--version']\n"
    code += "runpy.run_module('kerasseq', run_name='__main__')"
    assert run_python(code).stdout.startswith("kerasseq 0.")


def test_console_script():
    import tomllib

    root = pathlib.Path(__file__).parents[2]
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    assert settings["project"]["scripts"]["kerasseq"] == "kerasseq.cli:main"
    assert callable(main)
