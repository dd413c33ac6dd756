"""N-gram models on disk: what comes back, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.datasets import python_reference
from kerasseq.text import CharacterTokenizer, NGramModel


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"k": 0.3},
        {"smoothing": "backoff"},
        {"smoothing": "kneser_ney"},
        {"smoothing": "kneser_ney", "discount": 0.6},
    ],
)
def test_the_file_brings_all_back(tmp_path, n, options):
    rng = np.random.default_rng(0)
    train, text = rng.integers(0, 5, 211), rng.integers(0, 7, 31)
    model = NGramModel(n, **options).fit(train, 7)
    model.save(tmp_path / "m.json")
    loaded = NGramModel.load(tmp_path / "m.json")
    assert loaded.get_config() == model.get_config()
    assert loaded.get_config().items() >= options.items()
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(
        loaded.log_probabilities(text), model.log_probabilities(text)
    )
    np.testing.assert_array_equal(loaded.probabilities(text), model.probabilities(text))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 5))
def test_every_count_follows_from_the_longest(ids, n):
    n = min(n, len(ids))
    model = NGramModel(n).fit(ids, 4)
    config = model.get_config()
    assert config["end"] == ids[len(ids) - n + 1 :]
    again = NGramModel.from_config(json.loads(json.dumps(config)))
    for name in ("grams", "counts", "totals"):
        for a, b in zip(
            getattr(model._counts, name), getattr(again._counts, name), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_the_tokenizer_is_in_the_file(tmp_path):
    tokenizer = CharacterTokenizer(unknown="?")
    model = NGramModel(3, smoothing="kneser_ney", tokenizer=tokenizer).fit("banana")
    model.save(tmp_path / "m.json")
    loaded = NGramModel.load(tmp_path / "m.json")
    assert loaded.tokenizer == tokenizer
    assert loaded.perplexity("bananas") == model.perplexity("bananas")
    assert loaded.generate("", 9, seed=0) == model.generate("", 9, seed=0)


def test_files_are_compact(tmp_path):
    text = python_reference()[:100_000]
    model = NGramModel(5, tokenizer=CharacterTokenizer()).fit(text)
    model.save(tmp_path / "m.json")
    lines = (tmp_path / "m.json").read_text().splitlines()
    distinct = len({text[i : i + 5] for i in range(len(text) - 4)})
    assert distinct < len(lines) < distinct + 200  # a line for each n-gram


def test_what_has_not_been_fitted():
    model = NGramModel(3, smoothing="backoff", tokenizer=CharacterTokenizer())
    again = NGramModel.from_config(model.get_config())
    assert repr(again) == "<NGramModel: n=3, backoff, not fitted>"
    assert again.tokenizer == model.tokenizer
    assert repr(NGramModel(1)) == "<NGramModel: n=1, k=1.0, not fitted>"
    fitted = NGramModel(2, smoothing="kneser_ney").fit([0, 1, 0], 3)
    assert repr(fitted) == (
        "<NGramModel: n=2, kneser_ney, vocabulary of 3, 2 distinct 2-grams>"
    )
    with pytest.raises(ValueError, match="Call `fit"):
        model.save("never.json")


def test_foreign_tokenizers_are_not_saved(tmp_path):
    class Foreign(CharacterTokenizer):
        pass

    model = NGramModel(1, tokenizer=Foreign()).fit("abc")
    with pytest.raises(TypeError, match="tokenizer of kerasseq.text, received Foreign"):
        model.save(tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


# 0 1 0 1 2 is the text: the pairs 01 twice, 10 and 12 once.
@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"counts": ["0 1 -2", "1 0 1", "1 2 1"]},
            r"counts\[0\]`.* at least 1, received -2",
        ),
        (
            {"counts": ["0 1 2", "1 0 0", "1 2 1"]},
            r"counts\[1\]`.* at least 1, received 0",
        ),
        ({"counts": ["0 1 2", "1 0 1", "1 3 1"]}, r"counts\[2\].*\[1, 3\].*0 to 2"),
        ({"counts": ["0 1 2", "1 0 1", "-1 2 1"]}, r"counts\[2\].*\[-1, 2\]"),
        ({"counts": ["0 1 2", "1 0", "1 2 1"]}, r"counts\[1\]` must be 2 ids and a"),
        ({"counts": ["0 1 2", "1 a 1", "1 2 1"]}, r"counts\[1\]` must be 2 ids"),
        ({"counts": ["0 1 2", 7, "1 2 1"]}, r"counts\[1\]: expected a string"),
        ({"counts": ["0 1 99999999999999999999"]}, r"counts\[0\]` must be 2 ids"),
        ({"counts": ["0 1 2", "1 0 1", "1 2 1", "1 2 1"]}, "an n-gram twice"),
        ({"counts": ["0 1 5", "1 0 1", "1 2 1"]}, "are inconsistent"),
        ({"counts": ["0 1 2", "1 0 1", "1 2 2"]}, "are inconsistent"),
        ({"counts": ["0 1 2", "1 0 1"]}, "are inconsistent"),
        ({"end": [1]}, "are inconsistent"),
        ({"counts": []}, "list of at least one line"),
        ({"counts": "0 1 2"}, "counts: expected a list"),
        ({"end": []}, "`end` must have n - 1 = 1 ids, received 0"),
        ({"end": [3]}, "`end` holds 3"),
        ({"end": None}, "end: expected a list"),
        ({"n": 0}, "n must be at least 1"),
        ({"n": 3}, r"counts\[0\]` must be 3 ids"),
        ({"smoothing": "backof"}, 'Did you mean "backoff"'),
        ({"discount": 0.5}, 'not used by smoothing="add_k"'),
        ({"k": -1}, "`k` must be"),
        ({"vocabulary_size": None}, "Call `fit"),
        ({"vocabulary_size": 2**40}, "at most"),
        ({"tokenizer": {"class_name": "NGramModel", "config": {}}}, "'NGramModel' is"),
        ({"tokenizer": {"class_name": "__doc__", "config": {}}}, "is not a tokenizer"),
        ({"tokenizer": 7}, "tokenizer: expected a table"),
        (
            {
                "tokenizer": {
                    "class_name": "CharacterTokenizer",
                    "config": {"unknown": None, "characters": ["a", "b"]},
                }
            },
            "is 3, but the tokenizer has 2 ids",
        ),
        ({"extra": 1}, "expected the key"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    path = tmp_path / "m.json"
    NGramModel(2).fit([0, 1, 0, 1, 2], 3).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=f"m.json is damaged: .*{message}"):
        NGramModel.load(path)
    path.write_text(path.read_text()[:-5])
    with pytest.raises(ValueError, match="m.json.*not JSON"):
        NGramModel.load(path)
