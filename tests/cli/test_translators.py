"""`kerasseq compare translators`."""

import csv
import json

import numpy as np
import pytest

from kerasseq.cli import main, translator_scores
from kerasseq.cli import translators as command_module
from kerasseq.cli.options import Settings, with_defaults
from kerasseq.datasets import Pairs
from kerasseq.training import bleu, bootstrap_bleu
from tests.cli.conftest import at_step, snapshot

pytest.importorskip("sacrebleu")
pytestmark = pytest.mark.once("the command line")

TINY = ["--count", "97", "--test-examples", "13", "--steps", "4", "--bootstrap", "7"]
TINY += ["--parameters", "9000", "--checkpoint-every", "2", "--vocabulary-size", "97"]
RNN = ["--models", "rnnenc,rnnsearch", "--tokenizers", "word", "--seeds", "0"]
COMPARE = ["compare", "translators", *TINY]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The folder of a comparison with both tokenizers and two seeds, and results."""
    folder = tmp_path_factory.mktemp("compared") / "run"
    words = [*COMPARE, "--models", "rnnsearch", "--seeds", "0,1", "--run", str(folder)]
    assert main(words) == 0
    return folder, json.loads((folder / "results.json").read_text())


def test_scores_are_those_of_the_translations(compared):
    folder, results = compared
    settings = Settings(**json.loads((folder / "run.json").read_text())["arguments"])
    data, _ = command_module.read_data(settings)
    names = translator_scores.new_names(data)
    assert results["pairs"] == [97, 13]
    assert results["names"] == sum(map(len, names)) > 0
    assert list(results["models"]) == ["rnnsearch-word", "rnnsearch-bpe"]
    for name, each in results["models"].items():
        assert abs(each["parameters"] - 9000) <= 450
        drawn = []
        for seed, scores in each["seeds"].items():
            found = json.loads((folder / f"{name}-seed{seed}/results.json").read_text())
            texts = found["translations"]
            assert scores["bleu"] == bleu(texts, data.tested.targets)
            assert sum(part["count"] for part in scores["by_length"]) == 13
            assert scores["names"]["count"] == results["names"]
            drawn.append(bootstrap_bleu(texts, data.tested.targets, samples=7))
        interval = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
        np.testing.assert_allclose(each["interval"], interval)
    (said,) = results["copying"]
    assert said["models"] == ["rnnsearch-word", "rnnsearch-bpe"]
    with open(folder / command_module.TABLE, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    parts = [
        s["by_length"] for m in results["models"].values() for s in m["seeds"].values()
    ]
    assert len(rows) == sum(map(len, parts))


def test_tables_and_damage(compared, command):
    folder, _ = compared
    assert "is finished" in command("compare", "--resume", folder).out
    (folder / "results.json").unlink()
    done = command("compare", "--resume", folder)
    for part in ("within 5 %", "BLEU on 13", "UNK", "One sentence", "rnnsearch-bpe is"):
        assert part in done.out
    lines = [line for line in done.out.splitlines() if line.startswith("  ")]
    assert max(map(len, lines)) <= 88
    (folder / "results.json").unlink()
    file = folder / "rnnsearch-word-seed0" / "results.json"
    whole = file.read_text()
    file.write_text('{"translations": ["a"], "sentence": "a"}')
    error = command("compare", "--resume", folder, code=2).err
    assert "results.json is damaged: expected 13 translations, received 1" in error
    file.write_text(whole)


def test_a_stopped_comparison_ends_as_if_it_had_not_been_stopped(command, tmp_path):
    words = [*COMPARE, *RNN, "--models", "rnnenc", "--run"]
    command(*words, "whole")
    with at_step(3):
        done = command(*words, "stopped", code=130)
    assert "train --resume stopped" in done.err
    assert not list((tmp_path / "stopped").glob("*/results.json"))
    command("compare", "--resume", "stopped")
    both = [json.loads((tmp_path / r / "results.json").read_text()) for r in
            ("whole", "stopped")]  # fmt: skip
    for results in both:
        results.pop("run")
        for each in results["models"].values():
            assert each.pop("seconds") > 0
    assert both[0] == both[1]
    before = snapshot(tmp_path / "stopped")
    command("train", "--resume", "stopped/rnnenc-word-seed0")
    assert snapshot(tmp_path / "stopped") == before


def test_sizes_of_the_three_models():
    data, _ = command_module.read_data(settings(count=61, test_examples=4))
    for kind in command_module.TOKENIZERS:
        tokenizers = command_module.make_tokenizers(kind, 97, data.training)
        assert (tokenizers[0] is tokenizers[1]) == (kind == "bpe")
    for name in command_module.MODELS:
        found = command_module.width_of(name, tokenizers, 28_000)
        model = command_module.build(name, tokenizers, found.width)
        assert model.count_params() == found.parameters
        assert abs(found.parameters - 28_000) <= 1400


def settings(**given):
    return Settings(**with_defaults(command_module.DEFAULTS, given))


def test_the_held_out_pairs():
    data, record = command_module.read_data(settings(count=211, test_examples=60))
    names = translator_scores.new_names(data)
    assert record["pairs"] == 211 + len(data.tested.sources)
    assert not set(data.training.sources) & set(data.tested.sources)
    assert 20 <= sum(map(bool, names)) < 60  # also rare names of the others
    place = data.tested.sources.index(data.sentence)
    assert names[place] and data.reference == data.tested.targets[place]
    other, _ = command_module.read_data(
        settings(count=211, test_examples=60, data_seed=1)
    )
    assert other.training != data.training
    own, _ = command_module.read_data(
        settings(count=50, test_examples=4, sentence="ici")
    )
    assert (own.sentence, own.reference) == ("ici", None)
    copied, record = command_module.read_data(
        settings(count=50, test_examples=4, data="copy")
    )
    assert [len(part.sources) for part in copied[:2]] == [50, 4]
    assert translator_scores.sentence_rows(
        {"sentence": {"source": "a", "reference": None}, "models": {}}
    ) == [("source", "a")]


def test_pairs_of_the_user(command, tmp_path):
    lines = [f"Hier ist Tom{n} Müller .\tHere is Tom{n} Müller .\n" for n in range(25)]
    (tmp_path / "p.tsv").write_text("".join(lines) + "no tab\n", encoding="utf-8")
    words = ["--pairs", "p.tsv", *RNN, "--steps", "1", "--parameters", "5000"]
    done = command("compare", "translators", *words, "--sentence", "Hier", "--json")
    results = json.loads(done.out)
    assert results["pairs"] == [20, 5]
    assert results["names"] == 5
    assert results["sentence"] == {"source": "Hier", "reference": None}
    assert "no tab: 1 line" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "p.tsv is empty"),
        ("one\ntwo\n", "No pair was found"),
        ("a\tb\n" * 19, "p.tsv must have at least 20 pairs, received 19"),
        ("a\tb\n" * 20, "p.tsv: fractions"),
    ],
)
def test_wrong_files(content, message, refused, tmp_path):
    (tmp_path / "p.tsv").write_text(content)
    assert message in refused("compare", "translators", "--pairs", "p.tsv")
    assert [path.name for path in tmp_path.iterdir()] == ["p.tsv"]


def test_wrong_words(refused):
    assert 'Did you mean "translators"' in refused("compare", "translator")
    assert "comes first" in refused("compare", "--seeds", "0", "translators")
    assert "--strict is for --pairs" in refused("compare", "translators", "--strict")
    assert "--sentence must be" in refused("compare", "translators", "--sentence", " ")
    line = refused(*COMPARE, *RNN, "--parameters", "1000", "--run", "r")
    assert "--parameters" in line and "rnnenc" in line


def test_config_and_dry_run(command, compared, tmp_path):
    folder, _ = compared
    for words in (["compare"], ["compare", "translators"], ["train"]):
        words += ["--config", folder / "run.json", "--dry-run", "--run", "new"]
        assert "4 models would be trained" in command(*words).out
    assert not (tmp_path / "new").exists()


def test_a_model_is_better_if_each_seed_agrees():
    texts = [f"the {a} cat sees the {b} dog" for a in "abcd" for b in "wxyz"]
    data = translator_scores.Data(
        Pairs(["a"], ["b"]), Pairs(texts, texts), texts[0], texts[0]
    )
    right, half, wrong = texts, [*texts[:8], *["a"] * 8], ["a"] * 16

    def compared(first, second):
        found = {
            name: {
                seed: {"translations": each, "sentence": "", "width": 1}
                | {"parameters": 1, "tokens": 1.0, "vocabularies": [1], "seconds": 1}
                for seed, each in enumerate(by_seed)
            }
            for name, by_seed in (("rnnenc-word", first), ("rnnsearch-word", second))
        }
        return translator_scores.compare(data, found, 20)["differences"][0]

    agreed = compared([wrong, wrong], [right, half])
    assert agreed["better"] and "rnnsearch-word is better than" in agreed["sentence"]
    worse = compared([right, right], [half, wrong])
    assert "rnnsearch-word is worse than rnnenc-word" in worse["sentence"]
    mixed = compared([wrong, right], [right, half])
    assert mixed["low"] > 0 and not mixed["better"]
    assert "is not clearly better" in mixed["sentence"]
    assert "The seeds do not agree: +100.0, -" in mixed["sentence"]
    nothing = compared([wrong, wrong], [["b"] * 16, wrong])
    assert not nothing["better"]
    assert "Neither rnnsearch-word nor rnnenc-word has learned" in nothing["sentence"]
