"""`kerasseq params`."""

import json

import pytest

from kerasseq.cli.params import SIZES
from kerasseq.published.architectures import architectures
from kerasseq.published.counting import count
from tests.processes import run_python

pytestmark = pytest.mark.once("the command line")


def test_list_has_one_line_per_model(command):
    out = command("params").out
    made_of, _, sizes = out.partition("Sizes")
    for name, a in architectures.items():
        assert f"{a.norm_placement} {a.norm} " in row(made_of, name)
        assert f"{count(a, what='all').total:,}" in row(sizes, name)
    assert row(sizes, "gpt3") == "gpt3 96 96 12,288 175B 174,604,259,328 173.9B"
    assert row(made_of, "palm") == "palm decoder pre layer rope swiglu no 2,048"
    assert row(made_of, "lamda") == "lamda decoder pre rms relative geglu no —"


def test_gpt3(command):
    out = command("params", "gpt3").out
    assert "175,181,291,520 parameters in 27,938 matrices" in out
    assert "174,604,259,328 parameters in 1,540 weights" in out
    assert row(out, "Query") == "Query 128 × 12288 9,216 14,495,514,624 8.3%"
    assert row(out, "attention") == "attention 57,986,777,088 33.2%"
    assert "Brown et al. 2020" in out and architectures["gpt3"].note in out
    assert "Published: 175B; counted here: -0.23%" in out
    assert "counted here: +1.11%" in command("params", "galactica").out


def test_experts(command):
    out = command("params", "mixtral_8x7b").out
    assert "A token uses 12,879,925,248 of them: 2 of 8 experts in each layer" in out
    found = json.loads(command("params", "mixtral_8x7b", "--json").out)
    assert found["all"]["active"] == 12_879_925_248
    assert "A token uses" not in command("params", "gpt2_small").out


def test_all_lists_each_weight(command):
    out = command("params", "bert_base", "--all").out
    assert str(count("bert_base", what="all")) in out
    assert "109,482,240 weights in 199 arrays" in out


def test_other_sizes(command):
    words = ["--num-layers", 12, "--hidden-size", 768, "--num-heads", 12]
    words += ["--max-sequence-length", 1024]
    out = command("params", "gpt3", *words).out
    assert "124,439,808 parameters in 196 weights" in out and "Published" not in out
    found = json.loads(command("params", "gpt3", *words, "--json").out)
    assert found["all"]["total"] == 124_439_808
    words = ["--vocabulary-size", 101]
    found = json.loads(command("params", "gpt3", *words, "--json").out)
    assert found["architecture"]["vocabulary_size"] == 101
    assert SIZES.keys() <= found["architecture"].keys()


def test_json(command):
    found = json.loads(command("params", "palm", "--json").out)
    assert found["architecture"]["source"] == architectures["palm"].source
    for what in ("matrices", "all"):
        counted = count("palm", what=what)
        assert found[what]["total"] == counted.total
        assert found[what]["number"] == counted.number
        assert found[what]["groups"] == counted.groups
        parts = [
            p._asdict() | {"weights": p.weights, "active": p.active}
            for p in counted.parts
        ]
        assert found[what]["parts"] == json.loads(json.dumps(parts))
    listed = json.loads(command("params", "--json").out)
    assert [row["name"] for row in listed] == list(architectures)
    assert listed[0]["size"] == 175_000_000_000
    assert listed[0]["counted"] == 174_604_259_328
    assert listed[0]["rule_of_thumb"] == 173_946_175_488


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpt33"], 'there is no architecture "gpt33". Did you mean "gpt3"?'),
        (["T5-11B"], 'Did you mean "t5_11b"?'),
        (["--layers", "3"], "expected the name of a model"),
        (["--all"], "expected the name of a model"),
        (["gpt3", "--width", "767"], "--hidden-size 767, received --num-heads 96"),
        (["gpt3", "--layers", "0"], "at least 1"),
        (["gpt3", "--layer", "3"], 'Did you mean "--layers"?'),
        (
            ["vit_base_16", "--vocabulary-size", "5"],
            "received --vocabulary-size 5 for ViT base",
        ),
    ],
)
def test_wrong_arguments(refused, words, message):
    assert message in refused("params", *words)


def test_needs_no_backend_and_loads_no_keras():
    code = """
import sys
from kerasseq.cli import main
assert main(["params"]) == main(["params", "gpt3"]) == 0
assert not {"keras", "tensorflow", "jax", "torch"} & set(sys.modules)
"""
    out = run_python(code, only=[], KERAS_BACKEND=None).stdout
    assert "175,181,291,520" in out


def row(text, name):
    """Returns the only line that begins with a name, its spaces merged."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    (found,) = (line for line in lines if line.startswith(f"{name} "))
    return found
