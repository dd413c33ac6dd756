"""The format onnx of models that decode: the prompt, and one step, as two programs.

| file | |
|---|---|
| `prompt.onnx` | ids, lengths and capacity to logits and the state |
| `step.onnx` | a token and the state to logits and what changed of the state |
| `generation.json` | what a loop over both must know, see `decoders.settings_of` |
| `source_tokenizer.json`, `target_tokenizer.json` | of a model with both |

The outputs of both have the names of the inputs of the step after `next.`: a loop keeps
what a program returned under these names, and passes it on. The batch size, the lengths
of the prompts and the capacity of the caches are free; a cache is as long as the first
program was told, and the steps write into it. onnxruntime runs it as fast as caches
that grow, whose sizes change at each step, and prompts of unequal length fit into it.

Both files have all weights. `examples/generate_without_keras.py` is such a loop.
"""

import pathlib
from typing import Any

import keras
import numpy as np
from keras import tree

from kerasseq import kernels
from kerasseq.core import packages
from kerasseq.core.types import Nested
from kerasseq.exporting import decoders
from kerasseq.exporting.companions import GENERATION, OWN_TOKENIZER, TOKENIZER
from kerasseq.exporting.tokenizer_files import tokenizer_json
from kerasseq.pretrained.folders import write_table

PROMPT, STEP = "prompt.onnx", "step.onnx"
NEXT = "next."
STEPS = 3  # that are compared


def write(model: keras.Model, folder: pathlib.Path, length: int | None = None) -> None:
    """Writes the programs of a model, and the settings of the loop.

    Args:
        model: A model of `decoders.CLASSES`, on TensorFlow.
        folder: Where the files go.
        length: Is not used: all lengths are free.

    Raises:
        ImportError: If onnx or tf2onnx is not installed.
        TypeError: If the model is of another class.
        ValueError: If the model predicts no tokens, or cannot be converted.
    """
    decoder, states = decoders.decoder_of(model), []

    def prompt(*inputs):
        logits, state = decoder.prompt(*inputs)
        states[:] = [tree.map_structure(lambda _: 0, state)]
        return _outputs(logits, state)

    def step(token, *flat):
        state = tree.pack_sequence_as(states[0], flat)
        logits, after = decoder.step(token, state)
        return _outputs(logits, after, state)

    with kernels.to_onnx():
        outputs = kernels.write_onnx(prompt, decoder.inputs, folder / PROMPT)
        inputs = [
            keras.KerasTensor(x.shape, x.dtype, name=name.removeprefix(NEXT))
            for name, x in outputs.items()
            if name.startswith(NEXT)
        ]
        kernels.write_onnx(step, [decoders.TOKEN, *inputs], folder / STEP)
    names = write_tokenizers(model, folder)
    write_table(folder / GENERATION, {**decoder.settings, "tokenizers": names})


def write_tokenizers(model: keras.Model, folder: pathlib.Path) -> list[str] | None:
    """Writes the tokenizers of source and target, for the package `tokenizers`.

    One that its format cannot hold is written for `kerasseq.text.load_tokenizer`. The
    file of a model with a single tokenizer is written by `companions`.

    Returns:
        The files of the prompt and of the text. None if the model has no tokenizer, or
        the package cannot read one of them.
    """
    own = getattr(model, "tokenizer", None)
    if own is not None:
        return None if tokenizer_json(own) is None else [TOKENIZER, TOKENIZER]
    names = []
    for side in ("source", "target"):
        vocabulary = getattr(model, f"{side}_vocabulary", None)
        tokenizer = getattr(vocabulary, "tokenizer", None)
        content = None if tokenizer is None else tokenizer_json(tokenizer)
        if content is not None:
            write_table(folder / f"{side}_{TOKENIZER}", content)
            names.append(f"{side}_{TOKENIZER}")
        elif tokenizer is not None:
            tokenizer.save(folder / f"{side}_{OWN_TOKENIZER}")
    return names if len(names) == 2 else None


def _outputs(logits, state, before=None):
    """Outputs by name: the logits, and the parts of a state that are new."""
    outputs, named = {"logits": logits}, tree.flatten_with_path(state)
    old = [None] * len(named) if before is None else tree.flatten(before)
    for (path, new), previous in zip(named, old, strict=True):
        if new is not previous:
            outputs[NEXT + ".".join(map(str, path))] = new
    return outputs


def check(model: keras.Model, folder: pathlib.Path, length: int | None = None) -> float:
    """Runs the programs by onnxruntime, and compares them with the model.

    A prompt and three steps, for one row and for three of unequal length.

    Args:
        model: The model that was written.
        folder: Where the files are.
        length: Is not used.

    Returns:
        The largest difference of a logit, relative to the largest one.

    Raises:
        ImportError: If onnxruntime is not installed.
        Exception: The errors of onnxruntime, which have no common class.
    """
    decoder = decoders.decoder_of(model)
    programs = Programs(folder)
    return max(_difference(model, decoder, programs, size) for size in (1, 3))


def _difference(model, decoder, programs, size):
    """Returns the largest difference of a logit for a number of rows."""
    inputs = decoders.example(model, decoder, size)
    logits, state = decoder.prompt(*map(keras.ops.convert_to_tensor, inputs))
    names = [x.name for x in decoder.inputs]
    received = programs.prompt(dict(zip(names, inputs, strict=True)))
    worst = between(received, logits)
    for _ in range(STEPS):
        token = received.argmax(axis=-1)
        logits, state = decoder.step(keras.ops.convert_to_tensor(token), state)
        received = programs.step(token)
        worst = max(worst, between(received, logits))
    return worst


def between(received: np.ndarray, expected: Any) -> float:
    """Returns the largest difference of logits, relative to the largest one.

    Ids that are never written have the logit -inf in both; else it is infinite.

    Examples:
        >>> between(np.array([1.0, -np.inf]), np.array([2.0, -np.inf]))
        0.5
    """
    expected = keras.ops.convert_to_numpy(expected)
    never = np.isneginf(expected)
    is_alike = received.shape == expected.shape
    if not is_alike or not np.array_equal(np.isneginf(received), never):
        return float("inf")
    difference = np.abs(received[~never] - expected[~never]).max(initial=0)
    largest = np.abs(expected[~never]).max(initial=0) or 1.0
    return float(np.nan_to_num(difference / largest, nan=np.inf))


class Programs:
    """Both programs, loaded by onnxruntime, with the state between their calls.

    Args:
        folder: Where the files are.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        onnxruntime = packages.load("onnxruntime", "onnxruntime", "the check needs")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # its errors are raised as well
        self.sessions: dict[str, Any] = {
            name: onnxruntime.InferenceSession(
                str(folder / name), options, providers=["CPUExecutionProvider"]
            )
            for name in (PROMPT, STEP)
        }
        self.state: dict[str, np.ndarray] = {}

    def prompt(self, inputs: Nested) -> np.ndarray:
        """Returns logits `(B, V)` after prompts, and begins a state."""
        self.state = {}
        return self._run(PROMPT, inputs)

    def step(self, token: np.ndarray) -> np.ndarray:
        """Returns logits `(B, V)` after a token `(B,)`, and continues the state."""
        return self._run(STEP, {"token": token, **self.state})

    def _run(self, name, inputs):
        session = self.sessions[name]
        inputs = {x.name: inputs[x.name] for x in session.get_inputs()}
        names = [x.name for x in session.get_outputs()]
        outputs = dict(zip(names, session.run(None, inputs), strict=True))
        logits = outputs.pop("logits")
        self.state |= {name.removeprefix(NEXT): x for name, x in outputs.items()}
        return logits
