r"""The learners of `kerasseq compare`: simple models, networks and a pre-trained BERT.

All sizes, rates and thresholds are fixed: none is chosen on the test part.

Two things differ from the paper of BERT, as the model is small and trained for minutes.
The kernels begin with the standard deviation $1 / \sqrt{D}$: the 0.02 of the paper is
near that for D = 768, but too small for the D of a small model. And the classifier
reads the mean of the hidden states of the tokens in place of the state of [CLS], to
which a short pre-training contributes little.
"""

import pathlib
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import contest, options, runs, schedule
from kerasseq.cli.console import Console, progress, set_seed, status
from kerasseq.cli.run import Run
from kerasseq.core import packages
from kerasseq.core.files import read_json, write_json
from kerasseq.core.padding import pad_rows
from kerasseq.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    import keras

    from kerasseq.models import BERT

TFIDF = "-tfidf"  # ending of the name of a simple model
SIMPLE = ("elastic-net", "boosting", "forest", "svc")
BERTS = ("bert", "bert-scratch")
NAMES = (*SIMPLE, *(name + TFIDF for name in SIMPLE), *options.ARCHITECTURES, *BERTS)
DEFAULT = [
    *(name + ending for name in SIMPLE for ending in ("", TFIDF)),
    *("gru", "lstm", "transformer", "bert"),
]
FEATURES = 20_000  # words and pairs of words that are counted
TOKEN = r"\w+|[?!]"
# Of networks; learning rates and dropout by name.
EPOCHS, BATCH_SIZE, VOCABULARY_SIZE, WARM_UP = 20, 32, 2000, 0.1
TRANSFORMERS = ("transformer", *options.SPARSE)
RATE, RATES = 5e-3, dict.fromkeys((*TRANSFORMERS, *BERTS), 1e-3)
DROPOUT, DROPOUTS = 0.3, dict.fromkeys(TRANSFORMERS, 0.1)
LAYERS = dict.fromkeys(TRANSFORMERS, 2)
# Of the pre-training. Most pairs of sentences of the default data fit the length.
PRETRAINING, PRETRAINED_SEED, PRETRAINING_RATE = "pretraining", 0, 3e-3
DOCUMENT, PRETRAINING_LENGTH, MASKED = 2, 32, 0.3
# Of the BERT.
BERT_LAYERS, HEADS, BERT_DROPOUT, LONGEST = 2, 4, 0.1, 64
STDDEV = 0.02  # of the kernels, at first


class Data(NamedTuple):
    """Texts of both parts.

    Attributes:
        x: Training texts.
        y: For each the list of its labels.
        tested: Texts of the test part.
        y_tested: Their labels.
        labels: The names of the labels.
        multi_label: Whether a text may have several labels.
        unlabeled: Texts for pre-training.
        groups: Labels whose mean F1 is shown, by the title of the mean.
        record: Source and checksum.
    """

    x: list[str]
    y: list[list[str]]
    tested: list[str]
    y_tested: list[list[str]]
    labels: list[str]
    multi_label: bool
    unlabeled: list[str]
    groups: dict[str, list[str]]
    record: dict[str, Any]

    def indicators(self, rows: Sequence[Sequence[str]]) -> np.ndarray:
        """Returns labels as 0 or 1, `(rows, labels)`."""
        return np.array([[name in row for name in self.labels] for row in rows], int)


def check_packages(names: list[str]) -> None:
    """Raises an `ImportError` if scikit-learn is needed and not installed."""
    simple = [name for name in names if is_simple(name)]
    if simple and not packages.is_installed("sklearn"):
        raise ImportError(
            f"{packages.missing(f'{simple[0]} needs', 'scikit-learn')}, or choose "
            "others with --models"
        )


def is_simple(name: str) -> bool:
    """Returns whether a learner is one of scikit-learn."""
    return name.removesuffix(TFIDF) in SIMPLE


class Learners:
    """Trains learners on the training part, and predicts the labels of the test part.

    Args:
        data: The data.
        settings: Arguments of the run.
        folder: The folder of the run.
        console: Where to print.
    """

    def __init__(
        self,
        data: Data,
        settings: options.Settings,
        folder: pathlib.Path,
        console: Console,
    ):
        self.data: Data = data
        self.settings: options.Settings = settings
        self.folder: pathlib.Path = folder
        self.console: Console = console

    def predict(self, name: str, seed: int) -> tuple[np.ndarray, float]:
        """Trains a learner, and predicts.

        Args:
            name: Its name.
            seed: Random seed.

        Returns:
            0 or 1 for each test text and label, and the seconds that it took.
        """
        pretrained = self.pretrained() if name == "bert" else None
        start = time.perf_counter()
        if is_simple(name):
            predicted = self._simple(name, seed)
        else:
            predicted = self._network(name, seed, pretrained)
        return predicted, time.perf_counter() - start

    # scikit-learn

    def _simple(self, name, seed):
        data, what = self.data, f"training {name}, seed {seed}"
        y = data.indicators(data.y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it could run longer
            with status(f"{what}: counting words"):
                vectorizer = _vectorizer(name)
                x = vectorizer.fit_transform(data.x)
                tested = vectorizer.transform(data.tested)
            kind = name.removesuffix(TFIDF)
            if not data.multi_label:
                with status(what):
                    model = estimator(kind, seed).fit(x, y.argmax(axis=1))
                    return np.eye(y.shape[1], dtype=int)[model.predict(tested)]
            columns = []
            with progress(f"{what}, labels", y.shape[1]) as show:
                for column in y.T:
                    model = estimator(kind, seed).fit(x, column)
                    columns.append(model.predict(tested))
                    show(len(columns))
        return np.stack(columns, axis=1)

    # Networks

    def _network(self, name, seed, pretrained):
        import keras

        keras.utils.clear_session()
        set_seed(seed)
        data, settings = self.data, self.settings
        model = self._build(name, pretrained)
        is_bert = name in BERTS
        if is_bert:
            model = PooledClassifier(model, data.labels, data.multi_label)
        labels = data.y if data.multi_label else [row[0] for row in data.y]
        with status("tokenizing the texts"):
            batches = (model.reader if is_bert else model).batches(
                data.x, labels, batch_size=settings.batch_size, seed=seed
            )
        steps = max(1, round(settings.epochs * batches.steps_per_epoch))
        model.compile(schedule.adam(RATES.get(name, RATE), steps, int(WARM_UP * steps)))
        fitted = model.model if is_bert else model
        contest.fit(fitted, batches.stream(0), steps, f"{name}, seed {seed}")
        with status(f"testing {name}"):
            if is_bert:
                return data.indicators(model.predict(data.tested))
            predictions = model.classify(data.tested, batch_size=256)
        rows = [p.label if data.multi_label else [p.label] for p in predictions]
        return data.indicators(rows)

    def _build(self, name, pretrained):
        data, settings = self.data, self.settings
        if pretrained is not None:
            return pretrained
        with status("training the tokenizer"):
            tokenizer = _tokenizer(data.x)
        if name in BERTS:
            return build_bert(tokenizer, settings.units)
        return kerasseq.models.SequenceClassifier(
            name,
            data.labels,
            tokenizer=tokenizer,
            multi_label=data.multi_label,
            units=settings.units,
            num_layers=LAYERS.get(name, 1),
            bidirectional=True,
            dropout=DROPOUTS.get(name, DROPOUT),
        )

    # Pre-training

    def pretrained(self) -> "BERT":
        """Returns the pre-trained BERT, which all seeds are fine-tuned from.

        Pre-training is done once, with checkpoints, in a folder of its own.
        """
        folder = self.folder / PRETRAINING
        if (folder / runs.RESULTS).exists():
            with status("loading the pre-trained model"):
                return kerasseq.load_model(folder / runs.MODEL)
        set_seed(PRETRAINED_SEED)
        texts, steps = self.data.unlabeled, self.settings.pretraining_steps
        with status("training the tokenizer of BERT", sum(map(len, texts))):
            model = build_bert(_tokenizer(texts), self.settings.units)
        last = len(texts) - len(texts) % DOCUMENT
        documents = [texts[n : n + DOCUMENT] for n in range(0, last, DOCUMENT)]
        with status("tokenizing the unlabeled texts"):
            batches = model.batches(
                documents,
                sequence_length=PRETRAINING_LENGTH,
                masking=kerasseq.training.MaskedLMMaskGenerator(
                    model.tokenizer, mask_selection_rate=MASKED, seed=PRETRAINED_SEED
                ),
                batch_size=2 * self.settings.batch_size,
                seed=PRETRAINED_SEED,
            )
        model.compile(schedule.adam(PRETRAINING_RATE, steps, int(WARM_UP * steps)))
        every = {"checkpoint_every": min(100, steps)}
        run = Run("bert", every, folder, self.console, record={})
        with run.reporter:
            label = "bert, pre-training"
            history = run.fit(model, batches, steps, "tokens_accuracy", label)
        lines = kerasseq.runs.read_progress(folder).lines
        results = {
            "texts": len(texts),
            "steps": steps,
            "parameters": model.count_params(),
            "tokens_accuracy": history[-1]["tokens_accuracy"],
            "seconds": lines[-1]["seconds"],  # without pauses
        }
        write_json(folder / runs.RESULTS, results)
        return model

    def pretraining(self) -> dict[str, Any] | None:
        """Returns the results of the pre-training; None if there was none."""
        file = self.folder / PRETRAINING / runs.RESULTS
        return read_json(file) if file.exists() else None


def _vectorizer(name: str) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    kind = TfidfVectorizer if name.endswith(TFIDF) else CountVectorizer
    return kind(ngram_range=(1, 2), token_pattern=TOKEN, max_features=FEATURES)


def estimator(kind: str, seed: int) -> Any:
    """Returns a model of scikit-learn for one label, or for several classes.

    Args:
        kind: A name of `SIMPLE`.
        seed: Its random seed.
    """
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    if kind == "elastic-net":
        net = {"solver": "saga", "l1_ratio": 0.5, "C": 10, "max_iter": 100, "tol": 0.01}
        if LogisticRegression().get_params().get("penalty") == "l2":
            net["penalty"] = "elasticnet"  # before scikit-learn 1.8
        return LogisticRegression(**net, random_state=seed)
    if kind == "boosting":
        return GradientBoostingClassifier(
            n_estimators=200,
            learning_rate=0.2,
            subsample=0.8,
            max_features="sqrt",
            random_state=seed,
        )
    if kind == "forest":
        return RandomForestClassifier(random_state=seed)
    return SVC(kernel="linear", random_state=seed)


def _tokenizer(texts: list[str]) -> Any:
    tokenizer = kerasseq.text.WordPieceTokenizer(VOCABULARY_SIZE)
    return tokenizer.fit("\n".join(texts))


# A small BERT


def build_bert(tokenizer: Tokenizer, units: int) -> "BERT":
    """Builds a model to pre-train.

    Args:
        tokenizer: A tokenizer with the special tokens of BERT.
        units: D.
    """
    model = kerasseq.models.BERT(
        tokenizer,
        num_layers=BERT_LAYERS,
        num_heads=HEADS,
        hidden_dim=units,
        max_sequence_length=LONGEST,
        dropout=0.0,
        head="pretraining",
    )
    for weight in model.weights:
        if weight.path.endswith("kernel"):
            weight.assign(weight * (units**-0.5 / STDDEV))
    return model


class PooledClassifier:
    """Classifies texts by the mean of the hidden states of a BERT.

    Args:
        bert: The model to start from, which is not changed.
        labels: Names of the labels.
        multi_label: Whether a text may have several.

    Attributes:
        model: The `keras.Model`, from ids and segments to logits.
    """

    def __init__(self, bert: "BERT", labels: Sequence[str], multi_label: bool):
        import keras
        from keras import ops

        self.labels: list[str] = list(labels)
        self.multi_label: bool = multi_label
        # It makes the batches and has the loss; its own head is not trained.
        self.reader: kerasseq.models.BERT = bert.with_head(
            "classify", self.labels, multi_label=multi_label, truncate=True
        )
        self.encoder: kerasseq.models.BERT = bert.with_head(
            "sequence", dropout=BERT_DROPOUT
        )
        self.special: dict[str, int] = self.encoder.preprocessor.special_ids
        states = self.encoder.output["sequence"]  # (B, T, D)
        ids = self.encoder.input["ids"]
        real = ops.cast(ops.not_equal(ids, self.special["[PAD]"]), states.dtype)
        real = ops.expand_dims(real, -1)
        mean = ops.sum(states * real, axis=1) / ops.sum(real, axis=1)  # (B, D)
        mean = keras.layers.Dropout(BERT_DROPOUT, name="mean_dropout")(mean)
        logits = keras.layers.Dense(len(self.labels), name="labels")(mean)
        self.model: keras.Model = keras.Model(self.encoder.input, logits)

    def compile(self, optimizer: "keras.optimizers.Optimizer") -> None:
        """Compiles the model with the loss of its labels."""
        self.model.compile(optimizer, loss=self.reader.default_loss())

    def predict(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the labels of texts: those with a probability of at least one half.

        Without several labels, the most probable one.
        """
        first, last = self.special["[CLS]"], self.special["[SEP]"]
        encode = self.reader.tokenizer.encode
        rows = [[first, *encode(text)[: LONGEST - 2], last] for text in texts]
        ids = pad_rows(rows, self.special["[PAD]"])[:, :LONGEST]
        x = {"ids": ids, "segments": np.zeros_like(ids)}
        logits = self.model.predict(x, batch_size=256, verbose=0)
        if self.multi_label:
            return [[self.labels[n] for n in np.flatnonzero(z >= 0)] for z in logits]
        return [[self.labels[n]] for n in logits.argmax(axis=-1)]
