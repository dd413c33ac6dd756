"""One `fit` for all models: what it refuses, and what it holds out."""

import keras
import numpy as np
import pytest

from kerasseq import models, text
from kerasseq.datasets.pairs import Pairs
from kerasseq.models.answer_rows import AnswerRows, Row
from kerasseq.models.seq2seq.pairs import PairRows
from kerasseq.models.text_blocks import TextCut, TextRows
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.fit_call import KerasData
from kerasseq.training import TextBatches
from kerasseq.training.batches import fit_arguments
from kerasseq.training.label_batches import Rows

pytestmark = pytest.mark.once("the same code on each backend")
SMALL = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}
LETTERS = text.CharacterTokenizer().fit("abcdefg")
SIZES = {"source_vocabulary_size": 5, "target_vocabulary_size": 7}
BERT = models.BERT(
    text.WordPieceTokenizer(30).fit("a b c d"), **SMALL, head="pretraining"
)


EVERY = [getattr(models, name) for name in models.__all__]
MODELS = [
    each for each in EVERY if isinstance(each, type) if issubclass(each, keras.Model)
]


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_no_model_has_a_method_of_its_own(method):
    tasks = [each for each in MODELS if issubclass(each, TaskModel)]
    assert len(tasks) >= 18
    assert {getattr(each, method) for each in tasks} == {getattr(TaskModel, method)}


EIGHT = (
    *("SequenceClassifier", "SequenceTagger", "Forecaster", "BERT", "GPTTask", "ViT"),
    *("LanguageModel", "Seq2Seq"),
)


@pytest.mark.parametrize("model", MODELS)
def test_three_classes_at_most_lie_between_a_model_and_that_of_keras(model):
    _, *between = model.__mro__
    ours = [each for each in between if each.__module__.startswith("kerasseq")]
    assert len(ours) <= 3, ours


def language_model():
    return models.LanguageModel("gru", LETTERS, units=3)


WRONG = {
    "an argument of images": (
        language_model, {"x": "abc" * 7, "shift": 0.1}, "no argument shift",
    ),
    "weights of a text": (
        language_model, {"x": "abc" * 7, "sample_weight": [1.0]},
        "sample_weight must be left out for a text",
    ),
    "a validation part of batches": (
        lambda: models.SequenceClassifier("gru", 2, vocabulary_size=5, units=3),
        {"x": iter([(np.ones((2, 3), int), np.zeros(2))]), "validation_split": 0.5},
        "validation_split",
    ),
    "weights of pairs": (
        lambda: models.Seq2Seq("gru", **SIZES, units=3),
        {"x": [[1]], "y": [[2]], "class_weight": {0: 2.0}},
        "class_weight must be left out for pairs",
    ),
    "a seed of windows": (
        lambda: models.Forecaster("gru", units=3),
        {"x": np.arange(30.0), "seed": 0}, "seed must be left out",
    ),
    "an argument of the layers": (
        lambda: models.Forecaster("gru", units=3),
        {"x": np.arange(30.0), "horizon": 2}, "sets the layers",
    ),
    "blocks of labeled texts": (
        lambda: BERT.with_head("classify", 2),
        {"x": ["a"], "y": [1], "sequence_length": 5},
        "sequence_length is for documents",
    ),
    "a part of documents": (
        lambda: BERT, {"x": [["a", "b"]], "validation_split": 0.5},
        "validation_split must be left out to pre-train",
    ),
    "missing cells of documents": (
        lambda: BERT, {"x": [["a", "b"]], "missing": "skip"},
        "missing must be left out to pre-train",
    ),
    "weights beside a stream of texts": (
        language_model,
        {"x": iter(["abc"] * 9), "steps_per_epoch": 2, "sample_weight": [1.0]},
        "sample_weight must be left out for a stream of texts",
    ),
    "weights of the labels of answers": (
        language_model, {"x": ["a"], "y": ["b"], "class_weight": {0: 2.0}},
        "class_weight must be left out for answers",
    ),
    "weights beside a stream of pairs": (
        lambda: models.Seq2Seq("gru", LETTERS, LETTERS, units=3),
        {"x": iter([("a", "b")] * 9), "steps_per_epoch": 2, "class_weight": {0: 2.0}},
        "class_weight must be left out for a stream of pairs",
    ),
    "weights of the labels of a forecaster": (
        lambda: models.Forecaster("gru", units=3),
        {"x": np.arange(30.0), "class_weight": {0: 2.0}},
        "class_weight must be left out for a Forecaster",
    ),
    "a seed of batches": (
        lambda: models.SequenceClassifier("gru", 2, vocabulary_size=5, units=3),
        {"x": iter([(np.ones((2, 3), int), np.zeros(2))]), "seed": 1},
        "seed must be left out for batches",
    ),
    "missing cells of batches": (
        lambda: models.SequenceClassifier("gru", 2, vocabulary_size=5, units=3),
        {"x": iter([(np.ones((2, 3), int), np.zeros(2))]), "missing": "skip"},
        "must be left out for batches of arrays",
    ),
    "shifts of batches": (
        lambda: models.ViT(2, image_size=4, patch_size=2, **SMALL),
        {"x": iter([(np.ones((2, 4, 4, 3)), np.zeros(2))]), "shift": 0.1},
        "shift must be left out for batches",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_effect_is_an_error(name):
    model, options, message = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=message):
        model().fit(**options, verbose=0)


IDS = {"x": np.ones((7, 3), "int32"), "y": np.ones((7, 3), "int32")}
NUMBERS = {
    "batch_size": (0, "3", 2.5),
    "epochs": (-1, "2"),
    "initial_epoch": (-1, None),
    "steps_per_epoch": (0, 1.5),
    "validation_split": (1.5, -0.1, "a"),
    "patience": (0, "a"),
    "seed": (-1, "a"),
    "validation_batch_size": (0,),
    "validation_steps": (0,),
    "validation_freq": (0, "a", None),
    "callbacks": ("x", [3]),
    "class_weight": ("balanced",),
    "sample_weight": ("a", [1.0, "b"], [1.0, 2.0], np.ones((2, 3)), [np.nan] * 7),
    "validation_data": ((), (1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("data", [IDS, {"x": "abcdefg" * 13}])
def test_the_message_names_a_wrong_argument(data, name):
    model = language_model()
    for value in NUMBERS[name]:
        with pytest.raises((TypeError, ValueError), match=f"^{name} must "):
            model.fit(**data, **{name: value}, sequence_length=3, verbose=0)


WRONG_NUMBERS = {
    "evaluate": {
        "batch_size": (0, "3", 2.5),
        "steps": (0, "a"),
        "callbacks": (3, [3]),
        "sample_weight": ("a", [1.0], np.full(7, np.nan)),
    },
    "predict": {"batch_size": (0, "3", 2.5), "steps": (0, "a"), "callbacks": (3, [3])},
}


@pytest.mark.parametrize("method", WRONG_NUMBERS)
def test_evaluate_and_predict_name_a_wrong_argument(method):
    model = language_model()
    data = IDS if method == "evaluate" else {"x": IDS["x"]}
    for name, values in WRONG_NUMBERS[method].items():
        for value in values:
            with pytest.raises((TypeError, ValueError), match=f"^{name} must "):
                getattr(model, method)(**data, **{name: value}, verbose=0)


DOCUMENTS = [["a b", "c d"], ["b a", "d"]]
LABELED = {"x": ["a", "b"], "y": [0, 1]}


@pytest.mark.parametrize(
    "head, data, name",
    [
        ("pretraining", {"x": DOCUMENTS, "sample_weight": [1.0, 2.0]}, "sample_weight"),
        ("pretraining", {"x": DOCUMENTS, "missing": "skip"}, "missing"),
        ("classify", {**LABELED, "sequence_length": 5}, "sequence_length"),
    ],
)
def test_what_has_no_effect_on_an_evaluation_is_an_error(head, data, name):
    model = BERT if head == "pretraining" else BERT.with_head(head, 2)
    with pytest.raises(ValueError, match=f"{name} (must be left out|is) for documents"):
        model.evaluate(**data, verbose=0)


def test_a_list_of_weights_is_an_array_of_them():
    weights, found = [1.0, 0.0, 0.5, 2.0, 0.0, 3.0, 1.0], []
    for given in (weights, np.array(weights)):
        keras.utils.set_random_seed(0)
        history = language_model().fit(**IDS, sample_weight=given, verbose=0).history
        found.append(history["loss"])
    assert found[0] == found[1]


def test_documents_and_arrays_are_both_validated_on(monkeypatch):
    documents, seen = [["a b", "c d"], ["b a", "d"]], []
    arrays = BERT.batches(documents, sequence_length=11).all()
    evaluate = BERT.evaluate

    def watched(x=None, *args, **kwargs):
        seen.append(x["ids"].shape)
        return evaluate(x, *args, **kwargs)

    monkeypatch.setattr(BERT, "evaluate", watched)
    found = [
        BERT.fit(documents, sequence_length=11, validation_data=data, verbose=0)
        for data in (documents, arrays)
    ]
    assert all(np.isfinite(each.history["val_loss"]).all() for each in found)
    assert seen == [arrays[0]["ids"].shape] * 2 and seen[0][1] == 11


def test_a_text_holds_out_its_end():
    model, seen = language_model(), []
    ids = "abcdefg" * 13
    model.evaluate, evaluate = lambda *a, **k: seen.append(k) or {}, model.evaluate
    options = {"sequence_length": 3, "batch_size": 5, "verbose": 0}
    model.fit(ids, validation_split=0.25, **options)
    (validated,) = seen
    wanted = LETTERS.encode(ids)[-round(0.25 * len(ids)) :]
    assert np.asarray(validated["x"]).reshape(-1)[:19].tolist() == wanted[:19].tolist()
    assert evaluate(ids, sequence_length=3, verbose=0)


WORDS = text.WordPieceTokenizer(30).fit("ab cd")
TEXTS = {"x": ["ab", "cd ab", "cd", "ab ab cd"] * 3, "y": ["p", "q", "q", "p"] * 3}
TAGS = {"x": [["ab"], ["cd", "ab"], ["cd"]], "y": [["p"], ["q", "p"], ["q"]]}
IMAGES = {"x": np.arange(7 * 16).reshape(7, 4, 4, 1), "y": [0, 1, 1, 0, 1, 0, 1]}
WINDOWS = {"x": np.sin(np.arange(55.0)).reshape(11, 5, 1), "y": np.ones((11, 1))}
PAIRS = {"x": ["ab", "cd ab", "c"], "y": ["b", "dc", "a"]}
EVALUATED = {
    "SequenceClassifier": (
        lambda: models.SequenceClassifier("gru", tokenizer="word", units=3), TEXTS,
    ),
    "SequenceTagger": (
        lambda: models.SequenceTagger("gru", tokenizer="word", units=3), TAGS,
    ),
    "Forecaster": (lambda: models.Forecaster("gru", units=3), WINDOWS),
    "BERT": (lambda: models.BERT(WORDS, **SMALL, head="classify"), TEXTS),
    "GPTTask": (
        lambda: models.GPT(LETTERS, **SMALL).with_head("classify"), TEXTS,
    ),
    "ViT": (
        lambda: models.ViT(2, image_size=4, channels=1, patch_size=2, **SMALL), IMAGES,
    ),
    "LanguageModel": (language_model, {"x": "abcdefg" * 13}),
    "answers": (language_model, {"x": ["ab", "a"], "y": ["dc", "b"]}),
    "answers beside a memory": (
        lambda: models.GPT(LETTERS, **SMALL, position="rope", memory_length=3),
        {"x": ["ab", "a"], "y": ["dc", "b"]},
    ),
    "a text with a memory": (
        lambda: models.GPT(LETTERS, **SMALL, position="rope", memory_length=3),
        {"x": "abcdefg" * 31},
    ),
    "Seq2Seq": (lambda: models.Seq2Seq("gru", LETTERS, LETTERS, units=3), PAIRS),
}  # fmt: skip


@pytest.mark.parametrize("name", EVALUATED)
def test_evaluate_gives_the_figures_of_the_validation(name):
    model, data = EVALUATED[name]
    assert {*EIGHT} <= {*EVALUATED}
    model, options = model(), {"batch_size": 3, "verbose": 0}
    held_out = tuple(data.values())
    if "y" in data:
        held_out += (np.linspace(0.5, 2.0, len(data["x"])),)
    history = model.fit(**data, validation_data=held_out, **options).history
    given = dict(zip(("x", "y", "sample_weight"), held_out, strict=False))
    found = model.evaluate(**given, **options, return_dict=True)
    wanted = {k.removeprefix("val_"): v for k, (v,) in history.items() if "val_" in k}
    assert {**wanted} == pytest.approx(found, rel=1e-5) and len(found) > 1


@pytest.mark.parametrize("name", [n for n in EVALUATED if "y" in EVALUATED[n][1]])
def test_fit_counts_the_weights_of_rows(name):
    make, data = EVALUATED[name]
    trained = []
    for weights in (np.ones(len(data["x"])), np.linspace(0, 2, len(data["x"]))):
        keras.utils.set_random_seed(0)
        model = make()
        model.compile(keras.optimizers.SGD(1.0))
        model.fit(**data, sample_weight=weights, verbose=0)
        trained.append(np.concatenate([w.ravel() for w in model.get_weights()]))
    assert np.abs(trained[0] - trained[1]).max() > 1e-3


ANSWERS = [Row(np.arange(n), np.ones(n)) for n in range(2, 22)]
PARTS = {
    "texts": (lambda: TextRows(np.arange(40), TextCut(), 3), lambda part: part.rows),
    "answers": (
        lambda: AnswerRows(ANSWERS, lambda ids, real: ids),
        lambda part: [len(row.ids) for row in part.rows],
    ),
    "pairs": (
        lambda: PairRows(None, Pairs([*range(20)], [*range(20)])),
        lambda part: part.pairs.targets,
    ),
    "labels": (
        lambda: Rows(np.arange(20), np.arange(20) % 2),
        lambda part: part.arrays,
    ),
}


@pytest.mark.parametrize("fraction", [0.0, 0.25])
@pytest.mark.parametrize("name", PARTS)
def test_no_row_is_both_trained_on_and_held_out(name, fraction):
    make, rows_of = PARTS[name]
    parts = [[*map(int, rows_of(part))] for part in make().split(fraction, 0)]
    assert sorted([*parts[0], *parts[1]]) == [*map(int, rows_of(make()))]
    of_each_class = (name, fraction) == ("labels", 0.0)  # 1.5 of 10 rows, rounded
    count = len(parts[0]) + len(parts[1])
    held_out = 2 * 2 if of_each_class else round((fraction or 0.15) * count)
    assert len(parts[1]) == held_out


def test_the_order_of_batches_is_that_of_their_seed():
    batches = TextBatches(np.arange(20), 3, 2)
    options = {"initial_epoch": 0}
    with pytest.raises(ValueError, match="shuffle=False is not possible"):
        fit_arguments(batches, None, {**options, "shuffle": False})
    batches.shuffled = False  # such as segments that continue each other
    with pytest.raises(ValueError, match="shuffle must be False"):
        fit_arguments(batches, None, {**options, "shuffle": True})
    assert not fit_arguments(batches, None, options)["shuffle"]


def test_data_for_keras_have_the_names_of_its_arguments():
    assert KerasData._fields == ("x", "y", "sample_weight", "class_weight")
