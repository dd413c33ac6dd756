"""Loss and metrics do not depend on the batch size, and equal the report."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import (
    BERT,
    GPT,
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
    ViT,
)
from kerasseq.tasks.base import TaskModel
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer
from kerasseq.tracing import gradient_flow
from kerasseq.training.metrics import PerStep

pytestmark = pytest.mark.once("sums and counts, tried everywhere on the tagger")

ROWS, T, V, C = 12, 17, 11, 3
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 10, "dropout": 0.0}
rng = np.random.default_rng(3)
WORDS = [
    rng.choice(["a", "mind", "nobler"], n).tolist()
    for n in (1, 2, 19, 3, 5, 2, 4, 9, 3)
]
TAGS = [rng.choice(["N", "V", "O"], len(row)).tolist() for row in WORDS]


def scores(model, *data, sizes=(1, 3, 32)):
    """Loss and metrics of an evaluation, which are the same for all batch sizes."""
    first, *others = (model.evaluate(*data, batch_size=n, verbose=0) for n in sizes)
    for found in others:
        assert found == pytest.approx(first, rel=1e-5)
    return first


def padded(real):
    """Ids with padding 0 where steps are not real, and tags of all steps."""
    x = np.where(real, rng.integers(1, V, real.shape), 0)
    return x, rng.integers(0, C, real.shape)


def real_steps():
    """Steps of rows of several lengths, padded on the right, left and inside."""
    real = np.arange(T) < rng.integers(2, 7, (ROWS, 1))
    real[4:8] = real[4:8, ::-1]
    real[8:] = rng.random((4, T)) < 0.5
    real[8:, 5] = True
    return real


@pytest.mark.everywhere("where a mask is lost, and weights are changed in place")
@pytest.mark.parametrize("crf", [False, True])
def test_a_tagger_in_training_and_evaluation(crf, tmp_path):
    keras.utils.set_random_seed(1)
    x, y = padded(real_steps())
    model = SequenceTagger("gru", C, vocabulary_size=V, units=5, crf=crf)
    for weight in model.crf.weights if crf else ():
        weight.assign(rng.normal(size=weight.shape))
    model.compile(keras.optimizers.SGD(0.0))
    rows = [row[row > 0] for row in x]
    tags = [row[ids > 0].tolist() for row, ids in zip(y, x, strict=True)]
    accuracy = model.report(rows, tags).accuracy
    assert model.report(x, y).accuracy == accuracy
    found = scores(model, rows, tags, sizes=(2, 12))
    assert found[1] == pytest.approx(accuracy)
    assert scores(model, x, y, sizes=(2,)) == pytest.approx(found, rel=1e-4)
    options = {"validation_data": (rows, tags), "verbose": 0}
    for data in ((rows, tags), (x, y)):
        history = model.fit(*data, batch_size=2, **options).history
        for name in ("", "val_"):
            both = [history[f"{name}loss"][0], history[f"{name}accuracy"][0]]
            assert both == pytest.approx(found, rel=1e-4)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert scores(loaded, rows, tags, sizes=(2,)) == pytest.approx(found, rel=1e-4)


@pytest.mark.everywhere("Keras multiplies weights in place on PyTorch")
def test_weights_of_the_caller_stay_as_they_are():
    x, y = padded(real_steps())
    model = SequenceTagger("gru", C, vocabulary_size=V, units=5)
    weights = keras.ops.full((ROWS, T), 0.5)
    model.train_on_batch(x, y, sample_weight=weights)
    assert (keras.ops.convert_to_numpy(weights) == 0.5).all()

    class Masked(TaskModel):
        def default_loss(self):
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    inputs = keras.Input((None,), dtype="int32")
    model = Masked(inputs, keras.layers.Embedding(V, C, mask_zero=True)(inputs), {})
    model.compile(weighted_metrics=["accuracy"])
    model.test_on_batch(x, y, sample_weight=weights)
    assert (keras.ops.convert_to_numpy(weights) == 0.5).all()


@pytest.mark.parametrize("crf", [False, True])
def test_each_row_has_the_tags_that_it_has_alone(crf):
    real = real_steps()
    vectors = rng.normal(size=(ROWS, T, 2)).astype("float32")
    vectors[~real] = -1.0
    sizes = {"units": 5, "crf": crf, "bidirectional": True}
    of_vectors = SequenceTagger("gru", C, features=2, mask_value=-1.0, **sizes)
    of_ids = SequenceTagger("gru", C, vocabulary_size=V, **sizes)
    for model, x in ((of_vectors, vectors), (of_ids, padded(real)[0])):
        for weight in model.crf.weights if crf else ():
            weight.assign(rng.normal(size=weight.shape))
        alone = [model.tag(x[n][real[n]][None])[0] for n in range(ROWS)]
        assert model.tag(x) == model.tag(list(x)) == alone
        assert model.tag(iter([x[:5], (x[5:], None)])) == alone
        y = rng.integers(0, C, (ROWS, T))
        y[:, 5] = -1  # no tag
        known = [y[n][real[n]] for n in range(ROWS)]
        right = np.concatenate([a == b for a, b in zip(alone, known, strict=True)])
        expected = right.sum() / sum((row >= 0).sum() for row in known)
        assert model.report(x, y).accuracy == pytest.approx(expected)
        assert scores(model, x, y)[1] == pytest.approx(expected)


@pytest.mark.parametrize("crf", [False, True])
def test_words(crf):
    tokenizer = CharacterTokenizer().fit("amindnobler ")
    model = SequenceTagger("gru", ["N", "V", "O"], tokenizer=tokenizer, crf=crf)
    accuracy = model.report(WORDS, TAGS).accuracy
    assert scores(model, WORDS, TAGS)[1] == pytest.approx(accuracy)
    # Metrics by name or of Keras count words as well, not their further letters.
    model.compile(metrics=[keras.metrics.SparseCategoricalAccuracy("right")])
    if not crf:
        assert scores(model, WORDS, TAGS)[1] == pytest.approx(accuracy)
        model.compile(metrics=["accuracy"], loss="sparse_categorical_crossentropy")
        assert scores(model, WORDS, TAGS)[1] == pytest.approx(accuracy)


def test_heads_for_tokens():
    pieces = WordPieceTokenizer(40).fit(["a mind nobler"])
    bert = BERT(pieces, **SIZES, max_sequence_length=67)
    gpt = GPT(CharacterTokenizer().fit("amindnobler "), **SIZES)
    for source in (bert, gpt):
        model = source.with_head("tag", ["N", "V", "O"])
        accuracy = model.report(WORDS, TAGS).accuracy
        assert scores(model, WORDS, TAGS)[1] == pytest.approx(accuracy)
        model.compile(keras.optimizers.SGD(0.0))
        history = model.fit(
            WORDS, TAGS, batch_size=1, validation_data=(WORDS, TAGS), verbose=0
        ).history
        assert history["val_accuracy"][0] == pytest.approx(accuracy)
        assert history["accuracy"][0] == pytest.approx(accuracy)
        # Arrays: tags at padding do not count.
        padding = model.preprocessor.padding
        ids = np.where(np.arange(T) < rng.integers(2, T, (ROWS, 1)), 3, padding)
        y = rng.choice(["N", "V", "O"], ids.shape)
        assert scores(model, ids, y)[1] == pytest.approx(model.report(ids, y).accuracy)
    model = bert.with_head("tokens")
    x = {"ids": rng.integers(5, 9, (6, 7)), "positions": np.tile([1, 2, 3], (6, 1))}
    weights = np.array([[1, 0, 0], [1, 1, 1], [1, 1, 0]] * 2, "float32")
    right = model.predict(x, verbose=0)["tokens"].argmax(-1)
    wanted = np.where(np.arange(18).reshape(6, 3) % 5 < 2, right, right + 1)
    expected = np.sum((wanted == right) * weights) / weights.sum()
    y, weights = {"tokens": wanted % pieces.vocabulary_size}, {"tokens": weights}
    for size in (1, 4, 32):
        found = model.evaluate(
            x, y, sample_weight=weights, batch_size=size, verbose=0, return_dict=True
        )
        assert found["accuracy"] == pytest.approx(expected)
        assert found["loss"] == pytest.approx(
            model.evaluate(x, y, sample_weight=weights, verbose=0)[0], rel=1e-5
        )


def evaluations(model, *data, **options):
    """Loss and metrics by name, which are the same for all batch sizes."""
    options |= {"return_dict": True, "verbose": 0}
    whole, *others = (
        model.evaluate(*data, batch_size=n, **options) for n in (32, 1, 4)
    )
    assert all(found == pytest.approx(whole, rel=1e-5) for found in others)
    return whole


@pytest.mark.everywhere("each output has a mean of its own, in compiled steps")
def test_models_with_several_outputs():
    draw = np.random.default_rng(5)
    pieces = WordPieceTokenizer(40).fit(["a mind nobler"])
    bert = BERT(pieces, **SIZES, max_sequence_length=67)
    model = bert.with_head("pretraining")
    ids = draw.integers(5, 9, (6, 7))
    x = {"ids": ids, "segments": ids * 0, "positions": np.tile([1, 2, 3], (6, 1))}
    y = {"tokens": draw.integers(5, 9, (6, 3)), "next": draw.integers(0, 2, 6)}
    tokens = np.array([[1, 0, 0], [1, 1, 1], [1, 1, 0]] * 2, "float32")
    weights = {"tokens": tokens, "next": np.linspace(0.5, 3, 6).astype("float32")}
    scores = model.predict(x, verbose=0)
    losses = {
        name: np.average(
            keras.ops.convert_to_numpy(
                keras.losses.sparse_categorical_crossentropy(
                    y[name], scores[name], from_logits=True
                )
            ),
            weights=weights[name],
        )
        for name in y
    }
    options = {"sample_weight": weights, "batch_size": 4, "verbose": 0}
    found = model.evaluate(x, y, return_dict=True, **options)
    assert found["tokens_loss"] == pytest.approx(losses["tokens"], rel=1e-5)
    assert found["next_loss"] == pytest.approx(losses["next"], rel=1e-5)
    assert found["loss"] == pytest.approx(sum(losses.values()), rel=1e-5)
    model.compile(keras.optimizers.SGD(0.0), loss_weights={"tokens": 2.0, "next": 0.5})
    expected = 2 * losses["tokens"] + losses["next"] / 2
    history = model.fit(x, y, **options).history
    assert history["loss"][0] == pytest.approx(expected, rel=1e-4)
    assert history["next_loss"][0] == pytest.approx(losses["next"], rel=1e-4)


def test_losses_of_several_outputs_of_texts_and_of_the_user(tmp_path):
    draw = np.random.default_rng(5)
    pieces = WordPieceTokenizer(40).fit(["a mind nobler"])
    bert = BERT(pieces, **SIZES, max_sequence_length=67)
    documents = [[" ".join(row) for row in WORDS]] * 3
    evaluations(bert.with_head("pretraining"), documents, sequence_length=23)
    gpt = GPT(CharacterTokenizer().fit("amindnobler "), **SIZES)
    texts = [" ".join(row) for row in WORDS]
    spans = [(0, 1)] * len(texts)
    for model in (bert.with_head("span"), gpt.with_head("span")):
        weights = np.linspace(0, 3, len(texts)).astype("float32")
        found = evaluations(model, texts, spans, sample_weight=weights)
        assert found["loss"] == pytest.approx(
            found["start_loss"] + found["end_loss"], rel=1e-5
        )
        assert sorted(found) == [
            *("end_accuracy", "end_loss", "loss", "start_accuracy", "start_loss")
        ]
    model.compile(loss_weights=[2.0, 0.5])
    model.save(tmp_path / "model.keras")
    for each in (model, kerasseq.load_model(tmp_path / "model.keras")):
        found = evaluations(each, texts, spans)
        parts = np.array([found["start_loss"], found["end_loss"]])
        both = parts @ [2, 0.5], parts @ [0.5, 2]  # the order of `keras.tree`
        assert found["loss"] in [pytest.approx(each, rel=1e-5) for each in both]
    x = bert.with_head(None).encode(texts)
    model = bert.with_head(None)
    y = {
        name: draw.normal(size=part.shape).astype("float32")
        for name, part in model.predict(x, verbose=0).items()
    }
    losses = {
        "sequence": keras.losses.MeanSquaredError("mean_with_sample_weight"),
        "pooled": None,
    }
    weights = {
        n: draw.random(part.shape[:-1]).astype("float32") for n, part in y.items()
    }
    for pooled in (None, keras.losses.MeanAbsoluteError()):
        model.compile(loss={**losses, "pooled": pooled})
        found = [
            keras.Model.evaluate(
                model, x, y, sample_weight=weights, batch_size=n, verbose=0
            )
            for n in (1, 4, 32)
        ]
        assert np.ptp(found, axis=0) == pytest.approx(0, abs=1e-5)
        assert np.shape(found) == ((3,) if pooled is None else (3, 3))


def test_other_models():
    tokenizer = CharacterTokenizer().fit("abc")
    texts = ["".join(rng.choice(list("abc"), n)) for n in (1, 3, 21, 2, 5, 4)]
    labels = rng.choice(["x", "y"], len(texts)).tolist()
    model = SequenceClassifier("gru", ["x", "y"], tokenizer=tokenizer, units=3)
    accuracy = model.report(texts, labels).accuracy
    assert scores(model, texts, labels)[1] == pytest.approx(accuracy)
    head = GPT(tokenizer, **SIZES).with_head("classify", ["x", "y"])
    weights = np.linspace(0.1, 3, len(texts)).astype("float32")
    first, *others = (
        head.evaluate(texts, labels, sample_weight=weights, batch_size=n, verbose=0)
        for n in (1, 2, 32)
    )
    assert others == [pytest.approx(first, rel=1e-5)] * 2
    images = rng.random((6, 4, 6, 1))
    vit = ViT(["x", "y"], image_size=(4, 6), patch_size=2, channels=1, **SIZES)
    accuracy = vit.report(images, labels).accuracy
    assert scores(vit, images, labels)[1] == pytest.approx(accuracy)
    language = LanguageModel("gru", tokenizer, units=3)
    scores(language, "".join(texts) * 7)
    pairs = Seq2Seq(
        "gru", source_tokenizer=tokenizer, target_tokenizer=tokenizer, units=3
    )
    expected = scores(pairs, texts, texts[::-1])
    pairs.compile(keras.optimizers.SGD(0.0))
    options = {"validation_data": (texts, texts[::-1]), "verbose": 0}
    history = pairs.fit(texts, texts[::-1], batch_size=1, **options).history
    for name in ("", "val_"):
        both = [history[f"{name}loss"][0], history[f"{name}accuracy"][0]]
        assert both == pytest.approx(expected, rel=1e-4)


def test_metrics_of_the_user():
    class Exact(keras.metrics.Mean):
        """Whole sequences, which need the axis of time."""

        def update_state(self, y_true, y_pred, sample_weight=None):
            same = keras.ops.equal(keras.ops.argmax(y_pred, -1), y_true)
            super().update_state(keras.ops.all(same, axis=1))

    x, y = padded(np.ones((ROWS, T), bool))
    model = SequenceTagger("gru", C, vocabulary_size=V, units=5)
    model.get_layer("output").bias.assign([-99.0, 0.0, 0.0])  # no 0, as at padding
    model.compile(metrics=[Exact("exact"), "sparse_categorical_crossentropy"])
    best = model.predict(x, verbose=0).argmax(-1)
    y = np.where(np.arange(ROWS)[:, None] < 4, best, (best + 1) % C)
    y[0, 3] = (y[0, 3] + 1) % C
    assert scores(model, list(x), y.tolist())[1] == 0  # with padding
    assert scores(model, x[:, :16], y[:, :16])[1] == pytest.approx(3 / 12)


def test_per_step_is_saved_and_counts_batches():
    metric = PerStep(keras.metrics.SparseTopKCategoricalAccuracy(2, "top"))
    copy = PerStep.from_config(metric.get_config())
    assert copy.name == "top" and copy.metric.get_config()["k"] == 2
    logits = rng.normal(size=(ROWS, T, 5)).astype("float32")
    y = rng.integers(0, 5, (ROWS, T))
    weights = rng.random((ROWS, T)).astype("float32")
    right = (np.argsort(-logits, -1)[..., :2] == y[..., None]).any(-1)
    for start in range(0, ROWS, 5):
        rows = slice(start, start + 5)
        cut = T - start
        copy.update_state(y[rows, :cut], logits[rows, :cut], weights[rows, :cut])
        weights[rows, cut:] = 0
    expected = np.sum(right * weights) / weights.sum()
    assert float(copy.result()) == pytest.approx(expected, rel=1e-5)
    copy.reset_state()
    assert float(copy.result()) == 0


@pytest.mark.everywhere("a traced value in a metric is an error on JAX")
def test_gradient_flow_changes_no_metric(tmp_path):
    x, y = padded(np.ones((2, 5), bool))
    model = SequenceTagger("gru", C, vocabulary_size=V, units=5, crf=True)
    gradient_flow(model, x, y)
    assert all(float(metric.result()) == 0 for metric in model.metrics[::2])
    model.save(tmp_path / "model.keras")
