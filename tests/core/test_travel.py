"""A model saved on one backend goes on on every other."""

import contextlib
import importlib.util
import json
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import kernels
from kerasseq.core import portable
from kerasseq.models import SequenceClassifier
from tests.processes import ROOT, clean_environment, run_python

pytestmark = pytest.mark.once("settings are plain data, by rule of each backend")
BACKENDS = ("torch", "jax", "tensorflow")
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


@pytest.mark.once("its own processes run all three backends")
def test_models_travel_between_all_backends(tmp_path, request):
    """Trained, saved, loaded, predicting, generating, trained on."""
    missing = [name for name in BACKENDS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {missing}, too")
    what = "everything" if request.config.getoption("full") else "usual"
    folders = [tmp_path / name for name in BACKENDS]
    with contextlib.ExitStack() as running:
        travellers = [running.enter_context(traveller(f, what)) for f in folders]
        for turn in ("write", "read"):
            for process in travellers:  # one at a time
                print(turn, *folders, sep="\t", file=process.stdin, flush=True)
                assert process.stdout.readline() == f"{turn}\n", errors_of(process)


@contextlib.contextmanager
def traveller(folder, what):
    """A process on the backend that the folder is named after, which takes orders.

    It writes and then reads, as loading Keras twice would cost the most.
    """
    folder.mkdir()
    changes = {"KERAS_BACKEND": folder.name, "XLA_FLAGS": QUICK, "KERAS_HOME": folder}
    with (
        (folder / "errors.txt").open("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "tests.core.travelling", what, folder],
            **dict.fromkeys(("stdin", "stdout"), subprocess.PIPE),
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=clean_environment({k: str(v) for k, v in changes.items()}),
        ) as process,
    ):
        process.errors = folder / "errors.txt"
        try:
            yield process
        finally:
            process.stdin.close()  # the end of its orders


def errors_of(process):
    process.wait()
    return process.errors.read_text()


@pytest.mark.full("processes of two more backends")
def test_the_folder_of_a_run_is_used_on_every_backend(tmp_path, request):
    """Trained by the command on this backend, it generates the same on the others."""
    if not request.config.getoption("full"):
        pytest.skip("two processes: with --full")
    text = tmp_path / "words.txt"
    text.write_text("model gate state time loss " * 40, encoding="utf-8")
    train = ["train", "language-model", "--text", str(text), "--run", "r"]
    train += ["--units", "5", "--sequence-length", "7", "--steps", "9"]
    train += ["--model", "gru", "--batch-size", "3", "--json"]
    generate = ["generate", "r", "--prompt", "mo", "--length", "20"]
    generate += ["--temperature", "0"]
    code = "import sys; from kerasseq.cli import main; sys.exit(main(sys.argv[1:]))"
    first, *others = sorted(BACKENDS, key=lambda n: n != keras.backend.backend())
    run_python(code, *train, KERAS_BACKEND=first, cwd=tmp_path)
    found = {
        name: run_python(code, *generate, KERAS_BACKEND=name, cwd=tmp_path).stdout
        for name in (first, *others)
    }
    assert len(set(found.values())) == 1, found
    assert len(found[first].strip()) > 2


PRIVATE = "keras.src.backend.torch.optimizers.torch_adam"


def settings(*, jit_compile, optimizer="keras.optimizers", **more):
    """What `config.json` says of training."""
    named = {"module": optimizer, "class_name": "Adam", "config": {"name": "adam"}}
    named["registered_name"] = "Adam" if optimizer == PRIVATE else None
    nested = {"inner_optimizer": named}
    compiled = {"optimizer": nested, "jit_compile": jit_compile, **more}
    return {"class_name": "Functional", "compile_config": compiled}


@pytest.mark.parametrize(
    ("here", "optimizer", "saved", "loaded"),
    [
        ("torch", "keras.optimizers", True, "auto"),  # XLA's default is inductor here
        ("torch", "keras.optimizers", False, False),
        ("torch", PRIVATE, True, True),  # only the user can choose inductor
        ("jax", PRIVATE, False, "auto"),  # PyTorch's default turns XLA off
        ("jax", "keras.optimizers", True, True),
        ("tensorflow", "keras.optimizers", False, False),
        ("tensorflow", "keras.optimizers", "auto", "auto"),
    ],
)
def test_defaults_of_another_backend(monkeypatch, here, optimizer, saved, loaded):
    monkeypatch.setattr(keras.backend, "backend", lambda: here)
    config = settings(jit_compile=saved, optimizer=optimizer, steps_per_execution=3)
    found = portable.portable_settings([config])[0]["compile_config"]
    assert found["jit_compile"] == loaded
    assert found["optimizer"]["inner_optimizer"]["module"] == "keras.optimizers"
    assert found["steps_per_execution"] == (1 if here == "torch" else 3)
    assert config["compile_config"]["jit_compile"] == saved, "the given config changed"


@pytest.mark.everywhere("the public class is another one on each backend")
def test_a_plain_model_of_any_backend_loads(tmp_path):
    """Its file is changed to what another backend writes."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.25))
    model.compile(optimizer, "mse")
    x, y = np.ones((5, 3)), np.ones((5, 2))
    model.train_on_batch(x, y)
    model.save(tmp_path / "model.keras")
    expected = model.predict(x, verbose=0)
    model.train_on_batch(x, y)
    on_torch = keras.backend.backend() == "torch"

    def foreign(config):
        config = portable.public_optimizers(config)
        config["compile_config"]["jit_compile"] = on_torch
        inner = config["compile_config"]["optimizer"]["config"]["inner_optimizer"]
        if not on_torch:
            inner |= {"module": PRIVATE, "registered_name": "Adam"}
        return config

    change_config(tmp_path / "model.keras", foreign)
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, atol=1e-6)
    assert type(loaded.optimizer.inner_optimizer) is type(optimizer.inner_optimizer)
    assert not (on_torch and loaded.jit_compile)
    loaded.train_on_batch(x, y)
    for new, old in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_allclose(array(new), array(old), atol=1e-6)


@pytest.mark.parametrize("chosen", ["auto", True, False])
def test_a_file_holds_what_the_user_chose(tmp_path, chosen):
    model = SequenceClassifier("elman", labels=2, features=3, units=2)
    model.compile(jit_compile=chosen, auto_scale_loss=False)
    path = tmp_path / "model.keras"
    model.save(path)
    written = config_of(path)["compile_config"]
    assert written["jit_compile"] == (kernels.compiler() if chosen is True else chosen)
    assert written["auto_scale_loss"] is False
    assert "keras.src" not in json.dumps(written)
    for load in (kerasseq.load_model, keras.saving.load_model):
        again = load(path)
        default = kernels.default_jit_compile()
        assert again.jit_compile is (default if chosen == "auto" else chosen)
        assert again.get_compile_config()["jit_compile"] == written["jit_compile"]


@pytest.mark.parametrize("named", [False, True])
def test_what_was_chosen_for_another_compiler_is_kept_for_it(tmp_path, named):
    """True is what the files of Keras hold if they were saved on JAX."""
    on_torch = kernels.compiler() == "inductor"
    old = ("xla" if on_torch else "inductor") if named else True
    path = tmp_path / "model.keras"
    SequenceClassifier("elman", labels=2, features=3, units=2).save(path)

    def change(config):
        config["compile_config"]["jit_compile"] = old
        return config

    change_config(path, change)
    for load in (kerasseq.load_model, keras.saving.load_model):
        model = load(path)
        assert model.jit_compile is kernels.default_jit_compile()
        kept = old if named else ("auto" if on_torch else "xla")
        assert model.get_compile_config()["jit_compile"] == kept


def config_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("config.json"))


def change_config(path, change):
    """Write the file again with another `config.json`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = json.dumps(change(json.loads(members["config.json"])))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def array(weight):
    return keras.ops.convert_to_numpy(weight)
