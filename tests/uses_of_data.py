"""Wrong data for the models: for training, evaluation and prediction.

A result must be free of NaN, or a `ValueError` or `TypeError` of kerasseq itself must
say what was expected and what was received: not one of a backend, Keras or NumPy.
"""

import functools
import pathlib
import re
import traceback

import numpy as np

import kerasseq
from kerasseq import models, text
from tests.uses import Outcome, Use, problem_of_result

PACKAGE = str(pathlib.Path(kerasseq.__file__).parent)

WORDS = "the cat sat on a mat"
TEXTS = ["the cat", "a mat sat", "cat"]
NAN = np.full((3, 5, 2), np.nan, "float32")
DATES = np.arange("2024-01-01", "2024-01-04", dtype="datetime64[D]")

# What people pass by mistake in place of texts, ids, vectors, labels or weights.
DATA = [
    *(None, "", " ", [], (), {}, 3, 2.5, True, object, b"ab", range(3)),
    *(
        [""],
        [" "],
        [[]],
        [[], []],
        [None],
        ["a", None],
        ["a", 3],
        [b"ab"],
        [["a"], "b"],
    ),
    *(
        [1, 2, 3],
        [1.5, 2.5],
        [0.25, 0.5, 0.75],
        [[0.5, 1.5], [0.1, 0.2]],
        [True, False],
    ),
    *([[1, 2], [3]], [[-1, 2]], [[10**6]], [[1, "a"]], [[None]], [[[1], [2, 3]]]),
    *([float("nan")], [float("nan"), "a"], [1j, 2j], {"a": 1}, {"ids": [1]}, {1, 2}),
    *(np.array([]), np.zeros((0, 3), "int32"), np.zeros((0, 3, 2)), np.array(2)),
    *(np.zeros((2, 3)), np.ones((2, 3, 5, 7)), np.array([["a"]]), np.array(["a", 3])),
    *(np.array(["a", None], object), np.array([[1, None]], object), DATES),
    *(np.full((3, 5), 10**6), -np.ones((3, 5), "int32"), np.ones((3, 5), bool)),
    *(np.ones((3, 5, 2)) * 1j, NAN, np.where(NAN == NAN, NAN, np.inf), "ab", ["x"]),
]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
OPTIONS = {"epochs": 1, "batch_size": 2, "verbose": 0}


@functools.cache
def made(name):
    """One small model of each kind, with its labels and tokenizer."""
    words = text.WordTokenizer().fit(WORDS)
    pieces = text.WordPieceTokenizer(60).fit(WORDS)
    letters = text.CharacterTokenizer().fit(WORDS)
    small = {"units": 3, "num_layers": 1}
    makers = {
        "texts": lambda: models.SequenceClassifier(
            "gru", ["x", "y"], tokenizer=words, **small
        ),
        "sets": lambda: models.SequenceClassifier(
            "gru", ["x", "y"], tokenizer=words, multi_label=True, **small
        ),
        "ids": lambda: models.SequenceClassifier("gru", 2, vocabulary_size=7, **small),
        "vectors": lambda: models.SequenceClassifier("gru", 2, features=2, **small),
        "words": lambda: models.SequenceTagger(
            "gru", ["N", "V"], tokenizer=words, **small
        ),
        "path": lambda: models.SequenceTagger(
            "gru", ["N", "V"], tokenizer=words, crf=True, **small
        ),
        "forecast": lambda: models.Forecaster("gru", features=1, horizon=2, units=3),
        "characters": lambda: models.LanguageModel("gru", letters, units=3),
        "gpt": lambda: models.GPT(letters, max_sequence_length=40, **SIZES),
        "pairs": lambda: models.Seq2Seq(
            "gru", source_tokenizer=letters, target_tokenizer=letters, units=3
        ),
        "bert": lambda: models.BERT(
            pieces, head="classify", labels=["x", "y"], **SIZES
        ),
        "bert_tag": lambda: models.BERT(pieces, head="tag", labels=["N", "V"], **SIZES),
        "bert_span": lambda: models.BERT(pieces, head="span", **SIZES),
        "gpt_task": lambda: made("gpt").with_head("classify", ["x", "y"]),
        "choose": lambda: made("gpt").with_head("choose"),
        "reward": lambda: made("gpt").with_head("reward"),
        "images": lambda: models.ViT(["x", "y"], image_size=4, patch_size=2, **SIZES),
    }
    return makers[name]()


VALID = {  # inputs and labels
    "texts": (TEXTS, ["x", "y", "x"]),
    "sets": (TEXTS, [["x"], [], ["x", "y"]]),
    "ids": ([[1, 2], [3], [4, 5, 6]], [0, 1, 0]),
    "vectors": (np.ones((3, 5, 2), "float32"), [0, 1, 0]),
    "words": ([["the", "cat"], ["sat"]], [["N", "N"], ["V"]]),
    "path": ([["the", "cat"], ["sat"]], [["N", "N"], ["V"]]),
    "pairs": (TEXTS, TEXTS),
    "bert": (TEXTS, ["x", "y", "x"]),
    "bert_tag": ([["the", "cat"], ["sat"]], [["N", "N"], ["V"]]),
    "bert_span": ([("the", "the cat sat"), ("a", "a mat")], [(4, 7), (2, 5)]),
    "gpt_task": (TEXTS, ["x", "y", "x"]),
    "choose": ([("the", ["cat", "mat"]), ("a", ["cat", "mat"])], [0, 1]),
    "images": (np.ones((3, 4, 4, 3), "float32"), ["x", "y", "x"]),
}
VOTES = {"prompt": ["the"], "chosen": [" cat"], "rejected": [" mat"]}
ANSWERS = {  # methods that answer for inputs alone
    "texts": ("classify", "predict", "encode", "step_by_step"),
    "sets": ("classify",),
    "ids": ("classify", "predict"),
    "vectors": ("classify", "predict"),
    "words": ("tag", "predict", "encode"),
    "path": ("tag",),
    "bert": ("classify", "predict", "encode"),
    "bert_tag": ("tag", "predict"),
    "bert_span": ("answers",),
    "gpt_task": ("classify", "predict"),
    "choose": ("classify",),
    "images": ("classify", "predict"),
}


def of_data():
    """Each model that learns from data, and each of its answers."""
    uses = []
    for name, (x, y) in VALID.items():
        weights = {"sample_weight": [1.0] * len(x)}
        if name == "pairs":
            weights = {}
        data = {"x": x, "y": y, **weights}
        uses.append(use(name, "fit", data, **OPTIONS))
        uses.append(use(name, "evaluate", data, batch_size=2, verbose=0))
        if name not in ("pairs", "choose", "bert_span"):
            uses.append(use(name, "report", {"x": x, "y": y}))
    for name, methods in ANSWERS.items():
        x = VALID[name][0]
        for method in methods:
            quiet = {"verbose": 0} if method == "predict" else {}
            given = x[0] if method == "step_by_step" else x
            uses.append(
                use(name, method, {first_argument(name, method): given}, **quiet)
            )
    series = np.sin(np.arange(40.0))
    uses += [
        use("forecast", "fit", {"x": series}, epochs=1, verbose=0),
        use("forecast", "forecast", {"history": series}),
        use("reward", "fit", {"x": VOTES}, **OPTIONS),
        use("reward", "rewards", {"x": TEXTS}),
        use("pairs", "translate", {"sources": TEXTS}, max_length=3),
        use("pairs", "encode", {"sources": TEXTS, "targets": TEXTS}),
    ]
    for name in ("characters", "gpt"):
        uses += [
            use(name, "fit", {"x": WORDS * 9}, sequence_length=8, epochs=1, verbose=0),
            use(name, "generate", {"prompts": "the", "stop": "."}, max_new_tokens=2),
            use(name, "predict", {"x": WORDS}, verbose=0),
            use(name, "encode", {"x": TEXTS}),
            use(name, "next_tokens", {"prompt": "the"}),
            use(name, "surprise", {"source": "the cat"}),
        ]
    return uses


def first_argument(name, method):
    """The name of the inputs of a method."""
    if method == "answers":
        return "texts"
    return "images" if (name, method) == ("images", "classify") else "x"


def use(name, method, data, **options):
    """The use of a method of a model, whose data are replaced."""

    def function(**given):
        result = getattr(made(name), method)(**given, **options)
        return None if method == "fit" else numbers_of(result)

    return Use(f"{name}.{method}", function, data)


def numbers_of(result):
    """The numbers of a result, in arrays."""
    if isinstance(result, np.ndarray):
        return result if result.dtype.kind == "f" else None
    return None


def tried(use, argument, value):
    """Returns the outcome of a use with one argument replaced."""
    try:
        problem = problem_of_result(use.function(**{**use.arguments, argument: value}))
    except Exception as error:
        problem = problem_of_error(error)
    return Outcome(use.name, argument, value, problem and problem[:400])


def problem_of_error(error):
    """Returns what is wrong with an error, or None."""
    message, place = str(error), traceback.extract_tb(error.__traceback__)[-1]
    named = f"{type(error).__name__}: {message}"
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return None  # a string is the path of an image
    if not isinstance(error, ValueError | TypeError):
        return named
    if not place.filename.startswith(PACKAGE):
        return f"raised in {place.filename}: {named}"
    # "`ids` holds 3 at position 1", "the value is empty at step 0": so they say it.
    if not re.search(r"received|holds|is empty", message):
        return f"does not say what was received: {named}"
    return None
