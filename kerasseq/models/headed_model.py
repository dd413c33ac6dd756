"""Models with a task head: fine-tuning of BERT and GPT on texts, and their answers."""

from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks, sublayers
from kerasseq.core.dense import WEIGHTS
from kerasseq.core.types import Config, one_or_several
from kerasseq.models.bert import token_labels
from kerasseq.models.bert.bert_heads import Features, Head
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.class_labels import Classification, classify
from kerasseq.tasks.data_checks import (
    check_labels_of_rows,
    product_of_weights,
    sample_weights,
)
from kerasseq.tasks.input_rows import is_empty_list, number_of_rows
from kerasseq.tasks.labeled_data import (
    Data,
    for_complete_rows,
    inputs_of,
    labeled_rows,
    learned_rows,
)
from kerasseq.tasks.labeled_model import LabeledModel
from kerasseq.tasks.labels import Label, Labels
from kerasseq.tasks.preprocessor import Preprocessor
from kerasseq.tasks.tagging import tag, typed_tags
from kerasseq.training.label_batches import Rows, real_lengths

CLASSIFIERS = ("classify", "entail", "compare", "choose")


class HeadedModel(LabeledModel):
    """The base of `BERT` and `GPTTask`: hidden states of texts, and a head by name.

    If labels are to be learned, its outputs are hidden states, until `fit` builds the
    head.

    Args:
        inputs: Symbolic inputs by name.
        features: The hidden states, of which the head is built.
        preprocessor: Makes arrays of texts.
        task: The head.
        arguments: The arguments of the model, with `head`, the name.
        **kwargs: `name` and `trainable`.

    Attributes:
        heads: The classes of the heads by name.
    """

    heads: dict[str | None, type[Head]]
    head: str | None
    task: Head
    preprocessor: Preprocessor
    _graph: tuple[Any, Features]

    def __init__(
        self,
        inputs: dict[str, Any],
        features: Features,
        preprocessor: Preprocessor,
        task: Head,
        arguments: Config,
        **kwargs: Any,
    ) -> None:
        preprocessor.reads_words = task.per_step
        self.preprocessor, self.task = preprocessor, task
        self.head = arguments["head"]
        super().__init__(inputs, task.model_outputs(features), arguments, **kwargs)
        self._graph = inputs, features

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Configures training like `TaskModel.compile`; the default is Adam at 3e-4.

        If the model is to learn its labels, `fit` does it.
        """
        if optimizer is None and not self.task.is_waiting:
            optimizer = keras.optimizers.Adam(3e-4, global_clipnorm=1.0)
        super().compile(optimizer, *args, **kwargs)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        """Builds the head alone, on the hidden states, which keep their weights."""
        inputs, features = self._graph  # Keras wraps the dictionary of an attribute
        task = self.heads[self.head](arguments["labels"], self.multi_label)
        policy = keras.dtype_policies.serialize(self.dtype_policy)
        with sublayers.default_policy(policy):
            outputs = task.outputs(features)
        self.task = task
        TaskModel.__init__(self, dict(inputs), outputs, arguments, **options)

    @property
    def embedded(self) -> keras.KerasTensor:
        """The embeddings of the ids, a symbolic tensor of the model."""
        return self._graph[1].embedded

    @one_or_several(Classification)
    def classify(
        self,
        x: Any,
        *,
        threshold: float = 0.5,
        batch_size: int = BATCH_SIZE,
        missing: str = "error",
    ) -> Classification | list[Classification]:
        """Finds the most probable label, or with `multi_label` all probable ones.

        Args:
            x: One text, or a tuple for one pair; or several as for `fit`. With the head
                "choose" the labels are the answers.
            threshold: As for `SequenceClassifier.classify`.
            batch_size: Examples that are processed at once.
            missing: As for `SequenceClassifier.classify`.

        Returns:
            A `Classification` for one input, else a list of them; None for rows that
            are left out.

        Raises:
            ValueError: If the head does not classify, or the labels have not been
                learned yet.

        Examples:
            >>> import kerasseq
            >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
            >>> gpt = kerasseq.models.GPT(tokenizer, num_layers=1, hidden_dim=8)
            >>> chosen = gpt.with_head("choose").classify(("hello", ["world", "old"]))
            >>> chosen.label in ("world", "old"), sorted(chosen.probabilities)
            (True, ['old', 'world'])
        """
        self._check_head("classify", *CLASSIFIERS)
        if self.head != "choose":
            options = {"batch_size": batch_size, "missing": missing}
            return classify(self, x, threshold=threshold, **options)
        if self.preprocessor.is_one(x):
            return self._choices([x], batch_size)[0]
        return for_complete_rows(
            self, lambda rows: self._choices(rows, batch_size), x, missing
        )

    def _choices(self, x, batch_size):
        """Returns the chosen answer of each example."""
        if number_of_rows(x) == 0:
            return []
        rows = learned_rows(self, x)
        if rows is None:
            raise TypeError(
                "x must be pairs of a text and its answers, (text, [answer, answer]), "
                f"received {checks.short(x)}"
            )
        logits = self.outputs_of(rows, batch_size=batch_size, verbose=0)
        p = self.probabilities(logits).tolist()
        return [_chosen(*pair) for pair in zip(p, rows.places, strict=True)]

    @typed_tags
    def tag(
        self, x: Any, *, batch_size: int = BATCH_SIZE, missing: str = "error"
    ) -> list[Label] | list[list[Label]]:
        """Finds the most probable tags of words, as `SequenceTagger.tag`.

        Args:
            x: A list of words, or a text, which is split at spaces; or several of them;
                or inputs as for `fit`.
            batch_size: Rows that are processed at once.
            missing: As for `classify`.

        Returns:
            A list of tags for one sequence of words, else a list of lists; None for
            rows that are left out.

        Raises:
            ValueError: If the head is not "tag".

        Examples:
            >>> import kerasseq
            >>> tokenizer = kerasseq.text.WordPieceTokenizer(30).fit("the cat sat")
            >>> bert = kerasseq.models.BERT(tokenizer, num_layers=1, hidden_dim=8)
            >>> len(bert.with_head("tag", ["DET", "NOUN"]).tag("the cat"))
            2
        """
        self._check_head("tag", "tag")
        return tag(self, x, batch_size=batch_size, missing=missing)

    def answers(self, texts: Any, **kwargs: Any) -> Any:
        """Extracts the most probable span of each text, or of the second of each pair.

        Args:
            texts: A list of texts or of pairs, such as a question and a text; or one
                text, or one pair as a tuple.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            A list of strings, or of ids if the texts are ids; None if "no answer" is
            more probable. For one text or pair, a single answer.

        Raises:
            TypeError: If `texts` has the wrong type.
            ValueError: If the head is not "span".
        """
        self._check_head("answers", "span")
        if self.preprocessor.is_one(texts):
            return self.answers([texts], **kwargs)[0]
        texts = inputs_of(self, texts)
        if is_empty_list(texts):
            return []
        rows = learned_rows(self, texts)
        if rows is None or rows.places is None:
            raise TypeError(
                "texts must be a list of texts, or of pairs (question, text), received "
                f"{type(texts).__name__}"
            )
        logits = self.outputs_of(rows, **kwargs)
        scores = zip(logits["start"], logits["end"], strict=True)
        each = zip(texts, scores, rows.places, strict=True)
        return [_answer(text, *logits, place) for text, logits, place in each]

    def check_method(self, method: str) -> None:
        labeled = [name for name, head in self.heads.items() if head.has_labels]
        self._check_head(method, *(labeled if method == "report" else ()))

    def _check_head(self, method: str, *wanted: str) -> None:
        if self.head in (None, "sequence") or (wanted and self.head not in wanted):
            example = wanted[0] if wanted else "classify"
            raise ValueError(
                f"{method} is not available for head={self.head!r}. Use "
                f"with_head({example!r}), for example"
            )

    # Texts as arrays

    def weighted_inputs(self, x: Any, y: Any, sample_weight: Any) -> Data:
        x, y, sample_weight = super().weighted_inputs(x, y, sample_weight)
        if isinstance(x, str) and y is not None:
            is_list = isinstance(y, list)
            tags = self.head == "tag" and is_list and y and not np.shape(y[0])
            x, y = [x], [y] if tags or not is_list else y
        return x, y, sample_weight

    def rows_of(self, x: Any) -> Rows | None:
        if isinstance(x, str):
            x = [x]
        if getattr(getattr(x, "dtype", None), "kind", None) in ("U", "O"):
            x = np.asarray(x).tolist()  # an array of texts
        rows = self.task.read(self.preprocessor, x)
        if rows is None:
            return None
        rows.is_array = isinstance(x, dict) or hasattr(x, "shape")
        rows.padding, rows.per_step = self.padding_id, self.per_step
        ids = rows.arrays["ids"]
        if len(ids) and "positions" not in rows.arrays:
            rows.lengths = real_lengths(ids, self.padding_id)
        if self.task.takes_positions and "positions" not in rows.arrays:
            places = np.broadcast_to(np.arange(ids.shape[1], dtype="int32"), ids.shape)
            rows.arrays = {**rows.arrays, "positions": places}
        return rows

    def arrays(
        self, x: Any, y: Any, class_weight: Any = None
    ) -> tuple[Any, Any, np.ndarray | None]:
        """Converts texts and labels to inputs, labels and sample weights of Keras.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            class_weight: As for `fit`.
        """
        rows = labeled_rows(self, x, y, None, class_weight)
        return (x, y, None) if rows is None else (rows.arrays, rows.y, rows.weights)

    def targets(
        self, rows: Rows, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[Any, Any]:
        weights = None
        if isinstance(y, dict):  # of arrays, as the outputs are
            self._check_outputs("y", y)
            for name, part in y.items():
                check_labels_of_rows(part, len(rows), f"y[{name!r}]")
        else:
            check_labels_of_rows(y, len(rows))
            y, weights = self.task.targets(rows, y, class_weight)
        if self.task.needs_targets:
            y = token_labels.checked(rows, y, self.output, self.loss)
        return y, product_of_weights(weights, self._given_weights(sample_weight, y))

    def _given_weights(self, given, y):
        """Checks sample weights of the user; of several outputs a dictionary."""
        if isinstance(given, dict) and isinstance(self.output, dict):
            self._check_outputs("sample_weight", given)
            return {name: _weights_of(w, y[name]) for name, w in given.items()}
        return _weights_of(given, next(iter(y.values())) if isinstance(y, dict) else y)

    def _check_outputs(self, argument, given):
        """Raises unless a dictionary has arrays for outputs of the model alone."""
        names = self.output if isinstance(self.output, dict) else ()
        if not given or not set(given) <= set(names):
            wanted = f"of {sorted(names)} by name" if names else "without names"
            raise ValueError(
                f"{argument} must be arrays {wanted}, received {checks.short(given)}"
            )


def _weights_of(given, y):
    """Returns sample weights for an array of labels, of rows or of steps."""
    shape = np.shape(y)
    return sample_weights(given, shape[0], shape[1] if len(shape) > 1 else None)


def can_truncate(head: str | None) -> bool:
    """Returns whether texts may be cut for a head: it has no answer for each token."""
    return head in CLASSIFIERS


def check_truncate(truncate: bool, head: str | None) -> bool:
    """Raises if texts are to be cut for a head that needs all tokens."""
    if checks.flag("truncate", truncate) and not can_truncate(head):
        raise ValueError(
            f"truncate must be False for head={head!r}, received True. Texts can be "
            f"cut for {', '.join(CLASSIFIERS)}"
        )
    return truncate


def plain_labels(labels: Labels | None) -> int | list[Label] | None:
    """Returns labels as they are saved: their number, or their names.

    Examples:
        >>> plain_labels(Labels(3)), plain_labels(Labels(("a", "b")))
        (3, ['a', 'b'])
    """
    if labels is None:
        return None
    return labels.count if labels.are_indices else list(labels.names)


def _chosen(p, answers):
    """Returns the answer of a "choose" head; equal answers have one probability."""
    probabilities = {}
    for answer, probability in zip(answers, p, strict=False):  # without missing ones
        key = tuple(answer) if hasattr(answer, "__len__") else answer
        key = answer if isinstance(answer, str) else key
        probabilities[key] = probabilities.get(key, 0.0) + probability
    label = max(probabilities, key=probabilities.get)
    return Classification(label, probabilities[label], probabilities)


def _answer(text, start, end, place):
    """Returns the likeliest span of a text; None if "no answer" is likelier."""
    offsets, first, none, _ = place
    p_start, p_end = np.exp(start - start.max()), np.exp(end - end.max())
    inside = slice(first, first + len(offsets))
    # (T_start, T_end): the end is not before the start.
    scores = np.triu(p_start[inside, None] * p_end[inside])
    s, e = np.unravel_index(scores.argmax(), scores.shape)
    if scores[s, e] < p_start[none] * p_end[none]:
        return None
    if not isinstance(text, str) and hasattr(text[-1], "__len__"):
        text = text[-1]  # of a pair
    return text[offsets[s, 0] : offsets[e, 1]]


def copy_weights(old: keras.Model, new: keras.Model) -> None:
    """Copies weights between the layers of equal names of two models.

    Args:
        old: The source. LoRA weights are merged into their kernels.
        new: The target. Layers of other shapes, such as another number of classes,
            are skipped.

    Raises:
        ValueError: If a layer has other weights, such as after quantization.
    """
    ours = {layer.name: layer for layer in old.layers}
    for layer in new.layers:
        if layer.name not in ours:
            continue
        pairs = map(sublayers.flatten, (layer, ours[layer.name]))
        for mine, theirs in zip(*pairs, strict=True):
            _copy_layer(mine, theirs)


def _copy_layer(mine: keras.Layer, theirs: keras.Layer) -> None:
    """Copies the weights of one layer, without its sublayers."""
    have, given = {}, {}
    mine.save_own_variables(have)
    theirs.save_own_variables(given)
    if getattr(theirs, "lora", None) is not None:
        given = {n: w for n, w in given.items() if n not in WEIGHTS}
        given["0"] = theirs.merged_kernel()
    if have.keys() != given.keys():
        raise ValueError(
            f"the layer {theirs.path!r} must have {len(have)} weights, received "
            f"{len(given)}: quantized layers cannot be copied"
        )
    if all(have[n].shape == given[n].shape for n in have):
        # On JAX both models would share one array.
        mine.load_own_variables(
            {n: np.array(ops.convert_to_numpy(value)) for n, value in given.items()}
        )
