r"""A pre-trained GPT with a task on top, to be fine-tuned."""

import dataclasses
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks, sublayers
from kerasseq.core.serialization import register
from kerasseq.language.bert_trunk import Trunk
from kerasseq.language.gpt_heads import HEADS
from kerasseq.language.gpt_layers import (
    LanguageLoss,
    MarkEmbedding,
    SideBySide,
    Together,
)
from kerasseq.language.gpt_texts import MARKS, MarkedReader
from kerasseq.language.headed import Headed, keep_weights
from kerasseq.tasks.architectures import LastStep
from kerasseq.tasks.base import TaskModel


@dataclasses.dataclass
class MarkedTrunk(Trunk):
    """What a head stands on.

    Attributes:
        rows: The ids `(B, K, T)`, if there are several rows for each example.
        padding: The id of padding.
    """

    rows: Any = None
    padding: int = 0

    def pooled(self):
        """The vector of the last mark, `(B, D)`, or `(B, K, D)` for several rows."""
        last = LastStep(name="last")(self.sequence, mask=self.real)
        return last if self.rows is None else Together(name="together")(last, self.rows)

    def there(self):
        """Boolean `(B, K)`, False where a row is nothing but padding."""
        return ops.any(ops.not_equal(self.rows, self.padding), axis=-1)


@register
class GPTTask(Headed, TaskModel):
    r"""A GPT that has been pre-trained, and says something about texts.

    Each task is turned into rows of tokens, and what the last token, [extract], has
    read of a row is what a linear layer answers from. With $\lambda > 0$ it goes on
    learning to write the texts, too:

    $$L = L_{task} + \lambda\, L_{language}$$

    | head | texts | outputs |
    |---|---|---|
    | "classify" | `text` | logits `(B, C)` |
    | "entail" | `(premise, hypothesis)` | logits `(B, C)` |
    | "compare" | `(a, b)`, whose order does not matter | logits `(B, C)` |
    | "choose" | `(context, [answer, ...])` | logits `(B, K)`, one for each answer |
    | "tag" | `text`, or a list of words | logits `(B, T, C)`, at last pieces |
    | "span" | `text`, or `(question, text)` | logits "start" and "end", `(B, T)` |

    The marks [start], [delimiter] and [extract] are new ids, V to V + 2, with vectors
    of their own; V + 3 is padding. A text may also be a list of ids, without marks. An
    array "ids" `(B, T)`, or `(B, K, T)` for "compare" and "choose", has the marks in it
    and is taken as it is. A text for which there are not enough positions is an error.

    Args:
        gpt: A `GPT`. This model begins with its weights and shares none.
        head: One of the names above.
        num_classes: C, for heads with classes.
        language_model_weight: $\lambda$; 0.5 in the paper.
        dropout: Fraction dropped in training; as in `gpt` if None.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If `gpt` is none, or a number is none.
        ValueError: If a name or number is wrong.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> gpt = kerasseq.models.GPT(tokenizer, num_layers=1, hidden_dim=8)
        >>> task = gpt.with_head("choose", language_model_weight=0.5)
        >>> task.predict([("hello", ["world", "old"])], verbose=0).shape
        (1, 2)

    References:
        Radford et al. 2018, figure 1. Slides D: the GPT architecture.
    """

    heads = HEADS

    def __init__(
        self,
        gpt,
        head,
        *,
        num_classes=None,
        language_model_weight=0.0,
        dropout=None,
        **kwargs,
    ):
        if not hasattr(gpt, "stack"):
            raise TypeError(f"gpt must be a kerasseq.models.GPT, got {gpt!r}")
        checks.one_of("head", head, HEADS)
        weight = _weight(language_model_weight)
        if weight and gpt.head is None:
            raise ValueError(
                "language_model_weight must be 0 for a GPT with head=None, which "
                f"predicts no tokens, received {weight}. Leave it out"
            )
        task = HEADS[head](num_classes)
        config = gpt.get_config()
        for name in ("dtype", sublayers.KEY):  # a new model: nothing is frozen in it
            del config[name]
        config["dropout"] = config["dropout"] if dropout is None else dropout
        own = type(gpt).from_config(config)
        keep_weights(gpt, own)
        size, stack = own.vocabulary_size, own.stack
        if not stack.embedding.tie_weights and not weight:
            stack.embedding.reverse_embeddings.trainable = False  # nothing reads it
        reader = MarkedReader(
            own.tokenizer, size, own.longest, 3 if task.several else 2
        )
        shape = (None, None) if task.several else (None,)
        inputs = {"ids": keras.Input(shape, dtype="int32", name="ids")}
        trunk = _trunk(inputs["ids"], stack, reader, task, weight, config["dropout"])
        arguments = {
            "gpt": {
                "class_name": type(gpt).__name__,
                "config": config,
                "module": None,
                "registered_name": keras.saving.get_registered_name(type(gpt)),
            },
            "head": head,
            "num_classes": num_classes,
            "language_model_weight": weight,
            "dropout": dropout,
        }
        super().__init__(inputs, task.outputs(trunk), arguments, **kwargs)
        self.reader, self.head = reader, head
        self.tokenizer, self.vocabulary_size = own.tokenizer, size

    def language_model(self):
        """The `GPT` again, with the weights that it has now, to write with."""
        gpt = keras.saving.deserialize_keras_object(self._arguments["gpt"])
        keep_weights(self, gpt)
        return gpt

    def with_head(
        self, head, *, num_classes=None, language_model_weight=None, dropout=None
    ):
        """The same model with another head: what both have keeps its weights.

        Args:
            head: As for `GPT.with_head`, or None for a `GPT`.
            num_classes: Number of classes, for heads with classes.
            language_model_weight: As before if None.
            dropout: As before if None.

        Returns:
            A new model; this one stays as it is.

        Raises:
            ValueError: If the head is unknown, or `num_classes` does not fit it.
        """
        gpt = self.language_model()
        if head is None:
            return gpt
        weight = language_model_weight
        if weight is None:
            weight = self._arguments["language_model_weight"]
        other = type(self)(
            gpt,
            head,
            num_classes=num_classes,
            language_model_weight=weight,
            dropout=dropout,
        )
        keep_weights(self, other)
        return other


def _trunk(ids, stack, reader, task, weight, dropout):
    """From ids to the vectors of the tokens."""
    size, rows = reader.vocabulary_size, ids
    if task.several:
        ids = SideBySide(name="side_by_side")(rows)
    real = ops.not_equal(ids, reader.padding)
    x = stack.embedding(ops.minimum(ids, size - 1))
    x = MarkEmbedding(
        size,
        len(MARKS),
        keras.initializers.RandomNormal(stddev=0.02),
        name="mark_embedding",
    )(x, ids)
    x, _ = stack.hidden_states(x, mask=real)
    if weight:
        x = LanguageLoss(weight, stack.logits, size, name="language_loss")(x, ids)
    several = rows if task.several else None
    return MarkedTrunk(
        sequence=x,
        real=real,
        embedding=stack.embedding,
        dropout=dropout,
        rows=several,
        padding=reader.padding,
    )


def _weight(weight):
    """A factor of a loss, as a float."""
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise TypeError(f"language_model_weight must be a number, got {weight!r}")
    if not 0 <= weight < float("inf"):
        raise ValueError(
            f"language_model_weight must be 0 or more, got {weight}; 0.5 in the paper"
        )
    return float(weight)
