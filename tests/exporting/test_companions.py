"""preprocessing.json is enough to make the inputs of a model and read its outputs."""

import json

import numpy as np
import pytest

from kerasseq import models
from kerasseq.exporting import companions, inputs
from kerasseq.text import CharacterTokenizer, WordTokenizer

pytestmark = pytest.mark.once("files beside a model, which depend on no backend")
SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
WORDS = "the cat saw a dog"


def about(model, folder, **options):
    """What preprocessing.json says of a model."""
    companions.write(model, folder, options.pop("length", None), **options)
    return json.loads((folder / "preprocessing.json").read_text())


@pytest.fixture(scope="module")
def table():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    rows = 2 * 41
    return pandas.DataFrame(
        {
            "day": [*pandas.date_range("2025-01-01", periods=41)] * 2,
            "shop": ["north"] * 41 + ["south"] * 41,
            "sold": 7 + 3 * rng.normal(size=rows) + 100 * (np.arange(rows) > 40),
            "price": rng.random(rows),
            "weather": rng.choice(["rain", "sun"], rows),
        }
    )


def test_a_forecast_by_numpy_from_the_file_alone(tmp_path, table):
    horizon = 3
    model = models.Forecaster(
        "gru", units=5, horizon=horizon, quantiles=[0.1, 0.5, 0.9], past=["weather"],
        known=["price"], categories={"weather": ["rain", "sun"]},
        calendar=["weekday", "month", "day", "year", "hour"],
    )  # fmt: skip
    model.prepare(table, value="sold", date="day", group="shop", length=13)
    model._fitted.shifts = np.array([[-0.5, 0.0, 0.25]] * horizon)
    shuffle(model)
    settings = about(model, tmp_path)["forecast"]
    past = table.copy()
    last = past.groupby("shop").tail(horizon).index
    past.loc[last, "sold"] = np.nan
    past["weather"] = past["weather"].mask(past.index.isin(last))
    expected = model.forecast(past, horizon)
    for scale in settings["scales"]:
        own = table[table["shop"] == scale["series"]]
        rows = own.tail(settings["length"] + horizon).to_dict("records")
        x = [
            feature_row(row, settings, scale, future=n >= settings["length"])
            for n, row in enumerate(rows)
        ]
        (y,) = inputs.outputs_of(model, [np.array([x], "float32")])
        y = np.sort(y, axis=-1)[0] + settings["shifts"]
        y[:, 0] = np.minimum(y[:, 0], y[:, 1])
        y[:, 2] = np.maximum(y[:, 2], y[:, 1])
        y = scale["mean"] + scale["deviation"] * y
        wanted = expected[expected["shop"] == scale["series"]]
        wanted = wanted[["sold_0.1", "sold", "sold_0.9"]].to_numpy()
        np.testing.assert_allclose(y, wanted, rtol=1e-5)


def shuffle(model):
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(0.3 * rng.normal(size=weight.shape))


def feature_row(row, settings, scale, future):
    """The features of a row, as the file says."""
    day = row["day"]
    calendar = {
        "day": (day.day - 1) / 30,
        "month": (day.month - 1) / 11,
        "year": (day.year - 2000) / 100,
        "weekday": day.weekday() / 6,
        "hour": day.hour / 23,
    }
    assert settings["calendar"].keys() == calendar.keys()
    features = []
    for name in settings["features"]:
        column, _, category = name.partition("=")
        if name == "value":
            value = (row["sold"] - scale["mean"]) / scale["deviation"]
        elif name in calendar:
            value = calendar[name]
        else:
            value = row[column] == category if category else row[column]
        hidden = future and (name == "value" or column in settings["past"])
        features.append(0.0 if hidden else float(value))
    return features


def test_the_program_of_a_single_series_has_one_feature(tmp_path):
    model = models.Forecaster("gru", units=3, horizon=2)
    assert about(model, tmp_path)["forecast"]["scaled"] is False
    model.prepare(np.sin(np.arange(23.0)), length=7)
    settings = about(model, tmp_path)["forecast"]
    assert settings["features"] == ["value"] and len(settings["inputs"]) == 1
    assert settings["answer"] == ["the outputs are mean + deviation * output"]


def test_a_bert_has_its_ends(tmp_path):
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = WordTokenizer(special_tokens=marks).fit([WORDS])
    bert = models.BERT(tokenizer, max_sequence_length=11, **SMALL)
    model = bert.with_head("classify", labels=["no", "yes"], truncate=True)
    found = about(model, tmp_path)
    text = f"{WORDS} " * 5
    (ids, segments) = (model.rows_of([text]).arrays[n] for n in ("ids", "segments"))
    room = found["max_length"] - 2
    row = [found["start_id"], *tokenizer.encode(text)[:room], found["end_id"]]
    assert ids.tolist() == [row] and not segments.any()
    assert found["padding_id"] == model.padding_id
    assert "cut the ids of a long text" in found["row"][0]
    assert "max_characters" not in found
    found = about(model, tmp_path, max_characters=13)
    assert found["max_characters"] == 13
    assert found["row"][0].startswith("cut a text after max_characters characters")
    assert json.loads((tmp_path / "labels.json").read_text()) == ["no", "yes"]


def test_taggers_read_words(tmp_path):
    tokenizer = WordTokenizer().fit([WORDS])
    for crf in (False, True):
        model = models.SequenceTagger(
            "gru", ["X", "N"], tokenizer=tokenizer, units=3, crf=crf
        )
        found = about(model, tmp_path)
        assert found["row"][0].startswith("join the words by single spaces")
        assert ("Viterbi" in found["answer"]["reading"]) == crf
        assert ("at each step" in found["answer"]["reading"]) != crf


def test_images_have_black_and_white(tmp_path):
    options = {"image_size": 8, "patch_size": 4, "channels": 1, **SMALL}
    for value_range in (None, (0, 255)):
        model = models.ViT(3, value_range=value_range, **options)
        found = about(model, tmp_path, outputs=["logits"], batch=1)
        assert found["images"]["value_range"] == list(value_range or (0, 1))
        assert "padding_id" not in found and found["outputs"] == ["logits"]
        assert found["inputs"][0]["shape"] == [1, 8, 8, 1]


def test_sounds_are_compared_at_lengths_of_several_frames(tmp_path):
    tokenizer = CharacterTokenizer().fit("ab ")
    model = models.SpeechRecognizer(
        tokenizer=tokenizer, architecture="gru", units=8, num_layers=1,
        sampling_rate=1000, num_mels=7, stride=10, window=20, factor=2,
    )  # fmt: skip
    found = about(model, tmp_path)
    assert found["audio"]["sampling_rate"] == 1000
    assert found["audio"]["samples_of_step"] == 20
    assert found["audio"]["blank_id"] == tokenizer.vocabulary_size
    assert "padding_id" not in found
    assert inputs.fixed_length(model) == 128 * 20
    audio, lengths = inputs.examples(model, 2, 60)
    assert audio.shape == (2, 60) and lengths.tolist() == [60, 40]
    assert inputs.outputs_of(model, [audio, lengths])[0].shape[:2] == (2, 3)
    assert companions._about_length(model, 60) == "The inputs have 60 samples."


def test_captions_have_ids_that_are_never_written(tmp_path):
    tokenizer = WordTokenizer().fit([WORDS])
    model = models.Multimodal(
        tokenizer, head="caption", image_size=8, patch_size=4, channels=1,
        max_sequence_length=7, **SMALL,
    )  # fmt: skip
    shuffle(model)
    found = about(model, tmp_path)
    reader = model.preprocessor
    assert found["start_id"] == reader.start and found["end_id"] == reader.end
    assert found["never_written_ids"] == list(reader.never_written)
    assert found["padding_id"] == -1 and found["row"][0].startswith("a text begins")
    images = np.random.default_rng(0).random((1, 8, 8, 1)).astype("float32")
    ids = [found["start_id"]]
    while len(ids) <= found["max_length"] and ids[-1] != found["end_id"]:
        feeds = {"ids": np.array([ids], "int32"), "images": images}
        names = [each.name for each in inputs.inputs_of(model)]
        (y,) = inputs.outputs_of(model, [feeds[name] for name in names])
        y = y[0, -1]
        y[found["never_written_ids"]] = -np.inf
        ids.append(int(y.argmax()))
    ids = [i for i in ids if i not in (found["start_id"], found["end_id"])]
    (text,) = model.describe({"images": images})
    assert text == tokenizer.decode(ids)
