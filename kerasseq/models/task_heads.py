"""Models with a task head: its labels, and the answers of `classify` and `tag`."""

import functools
from typing import Any

import keras

from kerasseq.core import checks, sublayers
from kerasseq.models.bert.bert_heads import Features, Head, Loss
from kerasseq.tasks.class_labels import (
    Classification,
    ClassLabels,
)
from kerasseq.tasks.input_rows import number_of_rows
from kerasseq.tasks.labeled import learned_from
from kerasseq.tasks.labels import Label, Labels, learned
from kerasseq.tasks.tagging import TaggerMixin, all_tags
from kerasseq.training.label_reports import LabelReport

CLASSIFIERS = ("classify", "entail", "compare", "choose")


class TaskHeadMixin(ClassLabels, TaggerMixin):
    """The head of a model, with `classify`, `tag` and `report`.

    The model has the arguments `head`, `labels` and `multi_label`. If the labels are
    to be learned, its outputs are hidden states, until `fit` builds the head.

    Attributes:
        heads: The classes of the heads by name.
    """

    heads: dict[str | None, type[Head]]
    _graph: tuple[Any, Features]

    @functools.cached_property
    def task(self) -> Head:
        """The head."""
        arguments = self._arguments
        return self.heads[arguments["head"]](
            arguments["labels"], arguments["multi_label"]
        )

    @property
    def _labels(self) -> Labels | None:
        return self.task.labels

    @property
    def multi_label(self) -> bool:
        """Whether an example may have several labels at once."""
        return self.task.multi_label

    @property
    def outputs_are_logits(self) -> bool:
        """Whether `predict` returns logits, as it does for all heads."""
        return True

    @property
    def per_step(self) -> bool:
        """Whether each token has a label."""
        return self.task.per_step

    @property
    def padding_id(self) -> int:
        """The id of padding."""
        return self.reader.padding

    @property
    def _can_encode(self) -> bool:
        return not self.task.is_waiting

    @property
    def _longest(self) -> int | None:
        return self.reader.longest

    def default_loss(self) -> Loss:
        return self.task.loss()

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return []

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | None = None,
        *args: Any,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training like `TaskModel.compile`; the default is Adam at 3e-4.

        If the model is to learn its labels, `fit` does it.
        """
        if self.task.is_waiting:
            options = {"weighted_metrics": weighted_metrics, **kwargs}
            self._compile_later((optimizer, *args), options)
            return
        if optimizer is None:
            optimizer = keras.optimizers.Adam(3e-4, global_clipnorm=1.0)
        if weighted_metrics is None and not kwargs.get("metrics"):
            weighted_metrics = self.task.metrics()
        super().compile(optimizer, *args, weighted_metrics=weighted_metrics, **kwargs)

    def keep_graph(self, inputs: Any, features: Features) -> None:
        """Keeps what the head is built from: symbolic inputs and hidden states."""
        self._graph = inputs, features

    @property
    def embedded(self) -> keras.KerasTensor:
        """The embeddings of the ids, a symbolic tensor of the model."""
        return self._graph[1].embedded

    def _learn_labels(self, x, y):
        """Learns the names of the labels, and builds the head."""
        y = learned_from(y, x)
        names = learned(all_tags(y) if self.per_step else self.all_labels(y))
        inputs, features = self._graph  # Keras wraps the dictionary of an attribute
        arguments, options = {**self._arguments, "labels": names}, {"name": self.name}
        if not self.trainable:  # True would thaw each layer
            options["trainable"] = False
        args, compile_options = self._compile_arguments
        task = self.heads[self.head](names, self.multi_label)
        with sublayers.default_policy(
            keras.dtype_policies.serialize(self.dtype_policy)
        ):
            outputs = task.outputs(features)
        self.__dict__.pop("task")
        super().__init__(dict(inputs), outputs, arguments, **options)
        self.compile(*args, **compile_options)

    def several(self, x: Any) -> Any:
        """Returns one input as a list with it, others as they are."""
        mixin = TaggerMixin if self.per_step else ClassLabels
        return mixin.several(self, x)

    def is_one_input(self, x: Any) -> bool:
        """Whether `classify` received one text, or one pair as a tuple."""
        return isinstance(x, str | tuple)

    def classify(
        self,
        x: Any,
        *,
        threshold: float = 0.5,
        batch_size: int = 32,
        missing: str = "error",
    ) -> Classification | list[Classification]:
        """Finds the most probable label, or with `multi_label` all probable ones.

        Args:
            x: One text, or a tuple for one pair; or several as for `fit`. With the head
                "choose" the labels are the answers.
            threshold: With `multi_label`: the least probability of a label.
            batch_size: Examples that are processed at once.
            missing: "skip" leaves rows with an empty cell (None, NaN, or a text or word
                "") without prediction, and warns with their number; by default they are
                an error.

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
            >>> found = gpt.with_head("choose").classify(("hello", ["world", "old"]))
            >>> found.label in ("world", "old"), sorted(found.probabilities)
            (True, ['old', 'world'])
        """
        self._check_head("classify", *CLASSIFIERS)
        if self.head != "choose":
            return super().classify(
                x, threshold=threshold, batch_size=batch_size, missing=missing
            )
        if self.is_one_input(x):
            return self._choices([x], batch_size)[0]
        return self.for_complete_rows(
            lambda rows: self._choices(rows, batch_size), x, missing
        )

    def _choices(self, x, batch_size):
        """The chosen answer of each example."""
        if number_of_rows(x) == 0:
            return []
        rows = self._rows(x)
        if rows is None:
            raise TypeError(
                "x must be pairs of a text and its answers, (text, [answer, answer]), "
                f"received {checks.short(x)}"
            )
        logits = super().scores_of(rows.arrays, batch_size=batch_size, verbose=0)
        p = self.probabilities(logits).tolist()
        return [_chosen(*pair) for pair in zip(p, rows.places, strict=True)]

    def tag(
        self, x: Any, *, batch_size: int = 32, missing: str = "error"
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
        return super().tag(x, batch_size=batch_size, missing=missing)

    def report(
        self,
        x: Any,
        y: Any = None,
        *,
        threshold: float = 0.5,
        batch_size: int = 32,
        missing: str = "error",
    ) -> LabelReport:
        """Evaluates the model label by label, as `SequenceClassifier.report`.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            threshold: With `multi_label`: the least probability of a label.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves out rows with an empty cell, and warns with their
                number; by default they are an error.

        Returns:
            A `training.LabelReport`.

        Raises:
            ValueError: If the head has no labels, or a label is unknown.
        """
        labeled = [name for name, head in self.heads.items() if head.has_labels]
        self._check_head("report", *labeled)
        options = {"threshold": threshold, "batch_size": batch_size}
        return super().report(x, y, missing=missing, **options)

    def _check_head(self, method: str, *wanted: str) -> None:
        if self.head in (None, "sequence") or (wanted and self.head not in wanted):
            example = wanted[0] if wanted else "classify"
            raise ValueError(
                f"{method} is not available for head={self.head!r}. Use "
                f"with_head({example!r}), for example"
            )


def can_truncate(head: str | None) -> bool:
    """Whether texts may be cut for a head: it has no answer for each token."""
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
    """The answer of a "choose" head; equal answers have one probability."""
    found = {}
    for answer, probability in zip(answers, p, strict=False):  # without missing ones
        key = tuple(answer) if hasattr(answer, "__len__") else answer
        key = answer if isinstance(answer, str) else key
        found[key] = found.get(key, 0.0) + probability
    label = max(found, key=found.get)
    return Classification(label, found[label], found)
