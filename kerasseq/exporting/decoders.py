"""The two programs of a model that decodes: the prompt, and one step.

    prompt(ids, lengths, capacity) -> logits (B, V) of the next token, state
    step(token, state) -> logits (B, V) of the next token, state

`ids` are (B, P), `lengths` and `token` (B,). The state is a structure of tensors:
caches of keys and values, whose size the prompt gets as `capacity`; states of recurrent
layers; the memory of an encoder. All of it is computed by the functions with which
`generate` decodes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core.padding import PADDING
from kerasseq.core.types import Nested, Tensor
from kerasseq.models.gpt.gpt import GPT
from kerasseq.models.language_model import LanguageModel
from kerasseq.models.seq2seq.recurrent import Seq2Seq
from kerasseq.models.seq2seq.transformer_base import EncoderDecoder

CLASSES = (GPT, LanguageModel, Seq2Seq, EncoderDecoder)
# Inputs of a prompt, and of a step; ids have the dtype that NumPy gives to integers.
IDS = keras.KerasTensor((None, None), "int64", name="ids")
LENGTHS = keras.KerasTensor((None,), "int64", name="lengths")
CAPACITY = keras.KerasTensor((), "int64", name="capacity")
TOKEN = keras.KerasTensor((None,), "int64", name="token")


class Decoder(NamedTuple):
    """The programs of a model, and what a loop over them must know.

    Attributes:
        prompt: Function of the inputs to logits `(B, V)` and a state.
        step: Function of a token `(B,)` and a state to the same.
        inputs: The inputs of the prompt.
        settings: What `generation.json` says, see `settings_of`.
    """

    prompt: Callable[..., tuple[Tensor, Nested]]
    step: Callable[[Tensor, Nested], tuple[Tensor, Nested]]
    inputs: list[keras.KerasTensor]
    settings: dict[str, Any]


def decoder_of(model: keras.Model) -> Decoder:
    """Returns the programs of a model.

    Args:
        model: A `GPT` or a subclass, a `LanguageModel`, a `Seq2Seq`, a `Transformer`, a
            `T5` or a `BART`.

    Raises:
        TypeError: If it is of another class.
        ValueError: If it predicts no tokens.
    """
    if not isinstance(model, CLASSES):
        raise TypeError(
            "prompt and step are programs of GPT, LanguageModel, Seq2Seq, Transformer, "
            f"T5 and BART, received a {type(model).__name__}. Export its forward pass"
        )
    if isinstance(model, GPT) and model.head is None:
        raise ValueError(
            "prompt and step need a model that predicts tokens, received a GPT with "
            'head=None. Build it with head="tokens"'
        )
    inputs = [IDS, LENGTHS, CAPACITY]
    if isinstance(model, GPT):
        prompt = _prompt_of_gpt
    elif isinstance(model, LanguageModel):
        carries = "states" in model.start([[0]], 1)[0]
        prompt = _prompt_of_states if carries else _prompt_of_text
    else:
        prompt = _prompt_of_encoder
        source = model.inputs[0]
        is_image = model.source_vocabulary is None
        source = keras.KerasTensor(source.shape, source.dtype, name="ids")
        inputs = [source if is_image else IDS, CAPACITY]

    def step(token, state):
        return model.step(state, _as_int32(token))

    def first(*inputs):
        return prompt(model, *map(_as_int32, inputs))

    return Decoder(first, step, inputs, settings_of(model))


def _as_int32(x):
    """Returns the dtype of ids in models; features stay as they are."""
    is_id = keras.backend.standardize_dtype(x.dtype) == "int64"
    return ops.cast(x, "int32") if is_id else x


def _prompt_of_gpt(model, ids, lengths, capacity):
    """Caches of all but the last token of each row, and a step with that one."""
    index = lengths - 1
    caches = model.stack.make_caches(ops.shape(ids)[0], capacity)
    caches = model.prefill(ids, index, caches, length=capacity)
    return model.step({"caches": caches, "index": index}, _at(ids, index))


def _prompt_of_states(model, ids, lengths, capacity):
    """Returns the states of layers that carry them, whatever the capacity."""
    index = lengths - 1
    mask = ops.arange(ops.shape(ids)[1], dtype="int32")[None] < index[:, None]
    return model.step({"states": model.prefill(ids, mask)}, _at(ids, index))


def _prompt_of_text(model, ids, lengths, capacity):
    """Takes the text itself as state of layers without one: a step reads it all."""
    index = lengths - 1
    room = capacity - ops.shape(ids)[1]
    padding = ops.zeros((ops.shape(ids)[0], room), "int32")
    state = {"ids": ops.concatenate([ids, padding], axis=1), "index": index}
    return model.step(state, _at(ids, index))


def _prompt_of_encoder(model, ids, capacity):
    """Returns the memory of a source, and a step with the start of the target."""
    if isinstance(model, Seq2Seq):
        state = model.initial_state_model([ids])
    else:
        state = model.run_encoder(ids, capacity)
    start = ops.full((ops.shape(ids)[0],), model.target_vocabulary.start, "int32")
    return model.step(state, start)


def _at(ids, index):
    return ops.take_along_axis(ids, index[:, None], axis=1)[:, 0]


def settings_of(model: keras.Model) -> dict[str, Any]:
    """Returns what a loop over the programs must know, as plain JSON.

    Returns:
        "model", the class; "context_length", the most tokens of prompt and continuation
        (of a target, of a model with an encoder), or None; "padding", the id after the
        end of a shorter row; "has_prompt", whether the text begins with the prompt;
        "end", the ids that end a text. Ids of the model are those of a tokenizer plus
        an "offset"; "before" and "after" are ids around a source.

    Examples:
        >>> from kerasseq.models import LanguageModel
        >>> settings = settings_of(LanguageModel("gru", vocabulary_size=7, units=3))
        >>> settings["has_prompt"], settings["end"], settings["context_length"]
        (True, [], None)
    """
    if isinstance(model, GPT | LanguageModel):
        limits = [model.context_length]
        limits += [model.stack.cache_limit] if isinstance(model, GPT) else []
        own = {"has_prompt": True, "padding": PADDING, "end": [], "offset": 0}
        own |= {"before": [], "after": []}
    else:
        target, source = model.target_vocabulary, model.source_vocabulary
        limits = [getattr(model.decoder, "max_length", None)]
        own = {"has_prompt": False, "padding": target.padding, "end": [target.end]}
        own["offset"] = target.offset
        own["before"], own["after"] = ([], [])
        if source is not None:
            own["before"], own["after"] = source.before, source.after
    limit = min((n for n in limits if n is not None), default=None)
    return {"model": type(model).__name__, "context_length": limit, **own}


def example(model: keras.Model, decoder: Decoder, size: int) -> list[np.ndarray]:
    """Returns inputs of a prompt, with rows of unequal length.

    Args:
        model: The model.
        decoder: Its programs.
        size: B; the longest row has B + 3 ids, if the model reads as many.
    """
    draw, source = np.random.default_rng(size), decoder.inputs[0]
    limit = decoder.settings["context_length"]
    capacity = size + 8 if limit is None else min(size + 8, limit)
    length = max(min(size + 3, capacity - 3), 1)
    if source.dtype == "int64":
        lengths = np.maximum(length - np.arange(size), 1)
        vocabulary = getattr(model, "source_vocabulary", None)
        count = model.vocabulary_size if vocabulary is None else vocabulary.size
        ids = draw.integers(1, count, (size, length))
        padding = decoder.settings["padding"]
        first = np.where(np.arange(length) < lengths[:, None], ids, padding)
    else:
        lengths, first = None, draw.normal(size=(size, *source.shape[1:]))
    values = {"ids": first.astype(source.dtype), "lengths": lengths}
    values["capacity"] = np.array(capacity)
    return [values[x.name] for x in decoder.inputs]
