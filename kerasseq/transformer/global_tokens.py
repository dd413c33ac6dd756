"""Global tokens of models: by name or id, or as a mask of one call.

With attention="longformer", tokens read a window and the global tokens, which read all.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.transformer.mixers import OF_PAIRS

FIRST = "first"  # the name of the first real token, as [CLS] or the class token


def check_attention(
    attention: str,
    sliding_window: int | None,
    global_tokens: str | Sequence[int] | None,
    vocabulary_size: int | None,
) -> Config:
    """Returns the three arguments of an encoder model, checked.

    Args:
        attention: A name from `mixers.OF_PAIRS`.
        sliding_window: Width of the window, or None.
        global_tokens: As for `check_global_tokens`.
        vocabulary_size: As for `check_global_tokens`.

    Raises:
        TypeError: If `global_tokens` are not ids.
        ValueError: If a name is unknown, a number is out of range, or global tokens are
            given to an attention without them.

    Examples:
        >>> check_attention("longformer", 5, "first", None)["global_tokens"]
        'first'
    """
    checks.one_of("attention", attention, tuple(OF_PAIRS))
    if global_tokens is not None and attention != "longformer":
        raise ValueError(
            'global_tokens need attention="longformer", received attention='
            f'"{attention}". Leave them out'
        )
    return {
        "attention": attention,
        "sliding_window": checks.optional(
            checks.size, "sliding_window", sliding_window
        ),
        "global_tokens": check_global_tokens(global_tokens, vocabulary_size),
    }


def check_global_tokens(
    global_tokens: str | Sequence[int] | None, vocabulary_size: int | None
) -> str | list[int] | None:
    """Returns global tokens, checked.

    Args:
        global_tokens: "first", or ids of a text; None for no global tokens.
        vocabulary_size: Number of ids; None if the model reads no ids.

    Raises:
        TypeError: If they are not ids.
        ValueError: If the name is unknown, or an id is outside the vocabulary.

    Examples:
        >>> check_global_tokens((3, 5), 11)
        [3, 5]
    """
    if global_tokens is None:
        return None
    if isinstance(global_tokens, str) or vocabulary_size is None:
        return checks.one_of("global_tokens", global_tokens, (FIRST, None))
    ids = [checks.whole_number("an id in global_tokens", i, 0) for i in global_tokens]
    if max(ids, default=0) >= vocabulary_size:
        raise ValueError(
            f"global_tokens must be ids below {vocabulary_size}, received {max(ids)}"
        )
    return ids


def most(global_tokens: str | Sequence[int] | None, max_length: int) -> int | None:
    """Returns G, the most global tokens of a text; None without global tokens.

    Examples:
        >>> most("first", 7), most([3, 5], 7), most(None, 7)
        (1, 7, None)
    """
    if global_tokens is None:
        return None
    return 1 if global_tokens == FIRST else max_length


@register
class GlobalTokens(ListedConfig, keras.layers.Layer):
    """Finds the global tokens of texts.

    Args:
        tokens: "first", for the first real token, or ids.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        real: Boolean `(B, T)`, True at real tokens.
        ids: `(B, T)`; not needed for "first".
        earlier: Number of tokens before these, an integer or `(B,)`.

    Returns:
        Boolean `(B, T)`; the mask that `given` has set, if any.

    Examples:
        >>> real = keras.ops.array([[False, True, True]])
        >>> keras.ops.convert_to_numpy(GlobalTokens("first")(real))
        array([[False,  True, False]])
    """

    def __init__(self, tokens: str | Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokens = tokens
        self.given: Tensor | None = None

    def call(
        self, real: Tensor, ids: Tensor | None = None, earlier: int | Tensor = 0
    ) -> Tensor:
        real = ops.cast(real, "bool")
        if self.given is not None:
            return ops.cast(self.given, "bool")
        if self.tokens == FIRST:
            count = ops.cumsum(ops.cast(real, "int32"), axis=1)
            count = count + ops.reshape(ops.cast(earlier, "int32"), (-1, 1))
            return ops.logical_and(real, ops.equal(count, 1))
        chosen = ops.zeros_like(real)
        for i in self.tokens:
            chosen = ops.logical_or(chosen, ops.equal(ids, i))
        return ops.logical_and(real, chosen)

    def compute_output_spec(
        self, real: Any, ids: Any = None, earlier: Any = 0
    ) -> keras.KerasTensor:
        return keras.KerasTensor(real.shape, "bool")

    def compute_output_shape(self, real_shape: Shape) -> Shape:
        return real_shape


@contextlib.contextmanager
def given(model: keras.Model, global_mask: Tensor | None) -> Iterator[None]:
    """Makes a mask the global tokens of a model inside the block.

    Args:
        model: A model whose layers include a `GlobalTokens`.
        global_mask: Boolean `(B, T)`, or None, which changes nothing.

    Raises:
        ValueError: If the model has no global tokens.
    """
    if global_mask is None:
        yield
        return
    layers = [each for each in model.layers if isinstance(each, GlobalTokens)]
    if not layers:
        raise ValueError(
            f"global_mask needs a {type(model).__name__} with global tokens, received "
            'one without. Create it with attention="longformer" and global_tokens="'
            'first" or ids'
        )
    layers[0].given = ops.convert_to_tensor(global_mask)
    try:
        yield
    finally:
        layers[0].given = None
