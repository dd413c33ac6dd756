"""`model(model.encode(x))` computes what the method that predicts answers."""

import keras
import numpy as np
import pandas
import pytest

from kerasseq import models, text

pytestmark = pytest.mark.once("arrays are made by NumPy")

LETTERS = text.CharacterTokenizer().fit("abcdefg ")
PIECES = text.WordPieceTokenizer(30).fit("ab cd abd")
WORDS = text.WordTokenizer().fit("ab cd abd")
SMALL = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}
LABELS = ["p", "q"]
TEXTS = ["ab cd", "abd", "cd ab abd"]
TARGETS = ["dc", "b", "a"]
IMAGES = np.arange(3 * 16).reshape(3, 4, 4, 1).astype("uint8")
DAYS = pandas.date_range("2024-01-01", periods=53, freq="D")
VALUES = 100 + 7 * np.sin(np.arange(53.0)) + np.arange(53) % 5


def in_a_table(column):
    return pandas.DataFrame({"text": column})["text"]


FORMS = {
    "one": lambda rows: rows[0],
    "list": lambda rows: rows,
    "table": in_a_table,
}


def array(x):
    return keras.ops.convert_to_numpy(x)


def classified(model, x):
    found = model.classify(x)
    found = found if isinstance(found, list) else [found]
    return np.array([[*each.probabilities.values()] for each in found])


def probabilities(model, x):
    return model.probabilities(array(model(model.encode(x))))


CLASSIFIERS = {
    "SequenceClassifier": lambda: models.SequenceClassifier(
        "gru", LABELS, tokenizer=LETTERS, units=3
    ),
    "BERT": lambda: models.BERT(PIECES, **SMALL, head="classify", labels=LABELS),
    "GPTTask": lambda: models.GPT(LETTERS, **SMALL).with_head("classify", LABELS),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_of_texts_as_classify(name, form):
    model, x = CLASSIFIERS[name](), FORMS[form](TEXTS)
    found = probabilities(model, x)
    assert len(found) == (1 if form == "one" else len(TEXTS))
    np.testing.assert_allclose(found, classified(model, x), atol=1e-5)


@pytest.mark.parametrize("form", ["one", "list", "array"])
def test_of_images_as_classify(form):
    model = models.ViT(LABELS, image_size=4, channels=1, patch_size=2, **SMALL)
    x = {"one": IMAGES[0], "list": [*IMAGES], "array": IMAGES}[form]
    np.testing.assert_allclose(probabilities(model, x), classified(model, x), atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_of_texts_as_tag(form):
    model = models.SequenceTagger("gru", LABELS, tokenizer=WORDS, units=3)
    x = FORMS[form](TEXTS)
    tags = model.tag([each.split() for each in (TEXTS[:1] if form == "one" else TEXTS)])
    found = array(model(model.encode(x))).argmax(-1)
    assert len(found) == len(tags)
    for row, of_text in zip(found, tags, strict=True):
        assert [LABELS[n] for n in row[: len(of_text)]] == of_text


@pytest.mark.parametrize("form", FORMS)
def test_of_texts_as_the_logits_of_the_next_token(form):
    model, x = models.LanguageModel("gru", LETTERS, units=3), FORMS[form](TEXTS)
    found, wanted = array(model(model.encode(x))), model.predict(x, verbose=0)
    assert len(found) == len(wanted)
    for row, of_text in zip(found, wanted, strict=True):
        np.testing.assert_allclose(row[: len(of_text)], of_text, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_of_pairs_as_the_logits_of_the_target(form):
    model = models.Seq2Seq("gru", LETTERS, LETTERS, units=3)
    x, y = FORMS[form](TEXTS), FORMS[form](TARGETS)
    pairs = pandas.DataFrame({"x": x, "y": y}) if form == "table" else (x, y)
    pairs = ([x], [y]) if form == "one" else pairs
    found, wanted = array(model(model.encode(x, y))), model.predict(pairs, verbose=0)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    first = array(keras.ops.softmax(array(model(model.encode(x)))[0, 0]))
    first[[0, 1]] = 0  # padding and start, which no target has
    chosen = model.next_tokens(TEXTS[0])
    wanted = chosen.stages["model"][chosen.ids.argsort()]
    np.testing.assert_allclose(first / first.sum(), wanted, atol=1e-5)


SERIES = pandas.DataFrame({"day": DAYS, "sales": VALUES})
SEVERAL = pandas.concat(
    [SERIES.assign(shop="north"), SERIES.assign(shop="south", sales=3 * VALUES - 40)]
)
KNOWN = SERIES.assign(
    price=np.cos(np.arange(53.0)), holiday=["no", "yes", "no"] * 17 + ["no"] * 2
)
FUTURE = pandas.DataFrame(
    {
        "day": DAYS[-3:] + pandas.Timedelta(days=3),
        "price": [0.5, -0.25, 1.0],
        "holiday": ["yes", "no", "no"],
    }
)
OF_KNOWN = {"known": ("price", "holiday"), "categories": ("holiday",), "calendar": True}
FORECASTERS = {
    "values": (VALUES, {}, None),
    "a list": ([*VALUES], {"quantiles": (0.1, 0.5, 0.9)}, None),
    "dates": (SERIES, {"calendar": True}, None),
    "covariates": (KNOWN, OF_KNOWN, FUTURE),
    "past": (KNOWN.drop(columns="holiday"), {"past": ("price",)}, None),
    "two series": (SEVERAL, {"quantiles": (0.25, 0.5)}, None),
}


@pytest.mark.parametrize("name", FORECASTERS)
def test_of_a_table_as_forecast(name):
    data, options, known = FORECASTERS[name]
    model = models.Forecaster("gru", horizon=3, units=5, **options)
    named = {"group": "shop"} if name == "two series" else {}
    named |= {"value": "sales"} if hasattr(data, "columns") else {}
    model.fit(data, epochs=1, verbose=0, **named)
    for history in (None, data):
        windows = model.encode(history, known=known)
        found = model.decode(model(windows), history)
        wanted = model.forecast(history, 3, known=known)
        wanted = (
            wanted.select_dtypes("number").to_numpy()
            if hasattr(wanted, "columns")
            else wanted
        )
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5)
        assert windows.dtype == "float32" and len(windows) == len(found)
    with pytest.raises(ValueError, match="one for each series of history, received 5"):
        model.decode(np.zeros((5, *found.shape[1:])), data)


def test_of_values_by_hand():
    # The scale is that of the series: 1 and 5 are one deviation, 2, from their mean, 3.
    model = models.Forecaster("gru", horizon=1, units=3)
    model.fit([1.0, 5.0] * 17, epochs=1, verbose=0, length=2)
    assert model.encode([5.0, 1.0, 1.0, 5.0]).tolist() == [[[-1.0], [1.0]]]
    assert model.decode(np.array([[0.5]])).tolist() == [[4.0]]


def test_of_windows_as_forecast_and_predict():
    windows = np.sin(np.arange(66.0)).reshape(11, 6, 1)
    model = models.Forecaster("gru", horizon=2, units=3)
    model.fit(windows, windows[:, :2, 0], epochs=1, verbose=0)
    for history in (windows, windows[3, :, 0]):
        found = model.decode(model(model.encode(history)))
        wanted = model.forecast(history)
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=1e-6)
    found = array(model(model.encode(windows)))
    np.testing.assert_allclose(found, model.predict(windows, verbose=0), atol=1e-6)


def test_what_a_forecaster_cannot_encode():
    model = models.Forecaster("gru", features=2, horizon=2, units=3)
    assert model.encode(np.ones((3, 5, 2))).shape == (3, 5, 2)
    with pytest.raises(ValueError, match=r"\(rows, time, 2\), or .* shape \(3, 5, 1\)"):
        model.encode(np.ones((3, 5, 1)))
    with pytest.raises(ValueError, match="fitted to a table"):
        model.encode()
    with pytest.raises(TypeError, match="x must be an array of real numbers"):
        model.encode("abc")
    with pytest.raises(ValueError, match=r"shape \(None, 2\) .* received \(3, 5\)"):
        model.decode(np.ones((3, 5)))
    waiting = models.Forecaster("gru", past=["a"], categories=["a"], units=3)
    with pytest.raises(ValueError, match="fitted to a table"):
        waiting.encode(np.ones((3, 5, 2)))
