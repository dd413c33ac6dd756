"""What people try first with texts: one for several, several for one, fractions."""

import functools
import pathlib

import keras
import numpy as np
import pytest

from kerasseq import datasets, models, text

pytestmark = pytest.mark.once("arguments: the same on all backends")

TEXT = "to be or not to be, that is the question. " * 5
TINY = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4}


@functools.cache
def letters():
    return text.CharacterTokenizer().fit(TEXT + "LICENSE")


@functools.cache
def model(kind="gru"):
    if kind == "GPT":
        return models.GPT(letters(), max_sequence_length=17, **TINY)
    return models.LanguageModel(kind, letters(), units=3)


@functools.cache
def translator():
    return models.Seq2Seq("gru", letters(), letters(), units=3)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("LICENSE").write_text("something else")
    return "LICENSE"


@pytest.mark.parametrize("kind", ["gru", "GPT"])
def test_a_text_is_no_name_of_a_file(kind, file):
    assert model(kind).generate(file, 5).startswith(file)
    assert model(kind).predict(file, verbose=0).shape[:2] == (1, len(file))
    assert translator().translate(file, max_length=3).source_tokens == list(file)
    model(kind).fit(file, sequence_length=3, verbose=0)
    assert model(kind).cross_entropy(file) > 0
    assert letters().decode(letters().encode(file)) == file
    assert letters().encode_batch(file).ids.shape == (1, len(file))
    with pytest.raises(ValueError, match=r'pathlib\.Path\("LICENSE"\)'):
        model(kind).fit(file, sequence_length=11)
    with pytest.raises(TypeError, match="has its targets in itself: y must be None"):
        model(kind).fit(TEXT, TEXT)


@pytest.mark.parametrize("kind", ["gru", "GPT"])
def test_evaluate_and_predict_read_texts(kind):
    made = model(kind)
    options = {"sequence_length": 7, "verbose": 0}
    loss, bits = made.evaluate(TEXT, **options)
    assert np.isclose(bits, loss / np.log(2), rtol=1e-3)
    ids = letters().encode(TEXT)
    rows = (len(ids) - 1) // 7
    x, y = ids[: rows * 7].reshape(-1, 7), ids[1 : rows * 7 + 1].reshape(-1, 7)
    assert np.isclose(made.evaluate(x, y, verbose=0)[0], loss, rtol=1e-4)
    assert np.isclose(made.evaluate(ids, **options)[0], loss, rtol=1e-6)
    assert made.evaluate("to be", verbose=0)[0] > 0  # shorter than a block
    one, other = made.predict(["to be", "or"], verbose=0)
    np.testing.assert_allclose(one, made.predict("to be", verbose=0)[0], atol=1e-5)
    assert other.shape == (2, letters().vocabulary_size)


def test_a_part_of_a_text_is_held_out():
    made = models.LanguageModel("gru", letters(), units=3)
    made.compile(keras.optimizers.SGD(0.0))
    options = {"sequence_length": 7, "verbose": 0, "epochs": 2}
    history = made.fit(TEXT, validation_split=0.2, **options).history
    end = TEXT[-round(len(TEXT) * 0.2) :]
    loss = made.evaluate(end, sequence_length=7, verbose=0)[0]
    np.testing.assert_allclose(history["val_loss"], [loss] * 2, rtol=1e-4)
    for wrong, message in ((0.01, "Choose a larger fraction"), (7, "validation_split")):
        with pytest.raises(ValueError, match=message):
            made.fit(TEXT, validation_split=wrong, **options)
    arrays = np.ones((5, 3), "int32")
    found = made.fit(arrays, arrays, validation_split=0.4, verbose=0)
    assert "val_loss" in found.history


def test_several_texts_for_one():
    made = model()
    several = [TEXT, "that is the question"]
    together = made.cross_entropy("".join(several))
    assert made.cross_entropy(several) == together
    assert "loss" in made.fit(several, sequence_length=7, verbose=0).history
    one = made.generate("to", 5, seed=3)
    first, second = made.generate(["to", "to"], 5, seed=3)
    assert first == one and second.startswith("to") and len(second) == 7
    rows = np.stack([made.tokenizer.encode("to")] * 2)
    assert made.generate(rows, 5, seed=3) == [first, second]
    assert len("".join(model("GPT").stream(["to"], 5))) == 5
    with pytest.raises(ValueError, match="stream takes one prompt"):
        model("GPT").stream(["to", "be"], 5)


def test_pairs():
    made = translator()
    pairs = [("to", "be"), ("or", "not"), ("that", "is"), ("the", "be"), ("to", "or")]
    sources, targets = map(list, zip(*pairs, strict=True))
    made.compile(keras.optimizers.SGD(0.0))
    found = made.fit(sources, targets, validation_split=0.4, verbose=0)
    last = made.evaluate(sources[-2:], targets[-2:], verbose=0)[0]
    np.testing.assert_allclose(found.history["val_loss"], [last], rtol=1e-4)
    assert "loss" in made.fit(pairs, verbose=0).history
    assert made.evaluate(pairs, verbose=0) == made.evaluate(sources, targets, verbose=0)
    assert "loss" in made.fit("to", "be", verbose=0).history
    few = made.fit(sources, targets, validation_split=0.01, verbose=0)  # holds out one
    last = made.evaluate(sources[-1:], targets[-1:], verbose=0)[0]
    np.testing.assert_allclose(few.history["val_loss"], [last], rtol=1e-4)
    with pytest.raises(ValueError, match="leaves none to train on"):
        made.fit(sources[:1], targets[:1], validation_split=0.01, verbose=0)
    one = made.translate("to", max_length=3)
    assert made.translate(["to"], max_length=3)[0].text == one.text


def test_ids_of_one_source():
    made = models.Seq2Seq(
        "gru", source_vocabulary_size=5, target_vocabulary_size=5, units=3
    )
    several = made.translate([[1, 2, 3]], max_length=3)
    for one in ([1, 2, 3], np.array([1, 2, 3])):
        found = made.translate(one, max_length=3)
        assert found.text.tolist() == several[0].text.tolist()


def test_split():
    sources, targets = list("abcdefghij"), list("klmnopqrst")
    training, test = datasets.split((sources, targets), 0.2)
    assert (len(training.sources), len(test.sources)) == (8, 2)
    pairs = list(zip(sources, targets, strict=True))
    assert datasets.split(pairs, 0.2) == [training, test]
    assert datasets.split(pairs) == datasets.split((sources, targets))
    with pytest.raises(ValueError, match="fractions"):
        datasets.split(pairs, 1.5)


def test_one_text_for_a_head():
    gpt = model("GPT")
    task = gpt.with_head("classify", labels=2)
    np.testing.assert_allclose(
        task.predict("to be", verbose=0), task.predict(["to be"], verbose=0)
    )
    found = task.fit(["to", "be"] * 5, [0, 1] * 5, validation_split=0.5, verbose=0)
    assert "val_loss" in found.history
    for label in (1, [1]):
        assert "loss" in task.fit("to be", label, verbose=0).history
    tags = gpt.with_head("tag", labels=2)
    for labels in ([0, 1], [[0, 1]]):
        assert "loss" in tags.fit("to be", labels, verbose=0).history
    span = gpt.with_head("span")
    assert span.answers("to be", verbose=0) == span.answers(["to be"], verbose=0)[0]


TOKENIZERS = {
    "letters": lambda: letters(),
    "words": lambda: text.WordTokenizer().fit(TEXT),
    "byte pairs": lambda: text.BytePairTokenizer(270).fit(TEXT),
    "word pieces": lambda: text.WordPieceTokenizer(40).fit(TEXT),
    "longest matches": lambda: text.RWKVTokenizer([b"", *map(str.encode, "to benr")]),
    "unigram": lambda: text.UnigramTokenizer(280).fit(TEXT),
}


@pytest.mark.parametrize("make", TOKENIZERS.values(), ids=TOKENIZERS)
def test_tokenizers_take_one_text_or_several(make):
    tokenizer, texts = make(), ["to be", "or not to be"]
    rows = tokenizer.encode(texts)
    for ids, one in zip(rows, texts, strict=True):
        np.testing.assert_array_equal(ids, tokenizer.encode(one))
    assert tokenizer.decode(rows) == [tokenizer.decode(ids) for ids in rows]
    assert tokenizer.tokenize(texts) == [tokenizer.tokenize(one) for one in texts]
    batch = tokenizer.encode_batch(texts)
    assert tokenizer.decode(batch) == tokenizer.decode(rows)
    whole = tokenizer.encode_batch(texts[:1]).ids
    assert tokenizer.decode(whole) == [tokenizer.decode(rows[0])]
    assert tokenizer.decode(rows[0][0]) == tokenizer.decode(rows[0][:1])
    assert tokenizer.encode_batch("to be").ids.shape == (1, len(rows[0]))
    assert tokenizer.encode([]) == [] and tokenizer.decode([]) == ""
    for wrong in ([5], ["to", 5], 5, None):
        with pytest.raises(TypeError, match="string"):
            tokenizer.encode(wrong)
