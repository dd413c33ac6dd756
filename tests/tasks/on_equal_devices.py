"""Trains models on several devices and on one, and compares; on each backend."""

import contextlib
import sys
import tempfile

import keras
import numpy as np

from kerasseq import kernels, models, text, training
from kerasseq.training import checkpoint
from kerasseq.training.checkpoint import FILE

RNG = np.random.default_rng(0)
ROWS, STEPS = 9, 7  # batches of 4, 4 and 1: on two devices one is left without rows
LENGTHS = np.array([7, 2, 1, 5, 3, 7, 1, 4, 2])
IDS = RNG.integers(1, 11, (ROWS, STEPS)) * (np.arange(STEPS) < LENGTHS[:, None])
WEIGHTS = RNG.random(ROWS).astype("float32") + 0.1
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "vocabulary_size": 12}
OF_TOKENS = (IDS > 0).astype("float32")
EPOCHS = 4  # of three steps


TEXTS = ["one two. six ten.", "ten one. two six. one ten.", "two two. ten. six one."]


def pretraining():
    """BERT, with two losses: means over a few tokens, and over rows."""
    tokenizer = text.WordPieceTokenizer(40).fit(" ".join(TEXTS))
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6}
    model = models.BERT(tokenizer, **sizes, dropout=0.0, head="pretraining")
    vars(model)["rows"] = model.batches(TEXTS, sequence_length=13, batch_size=4).all()
    return model


UNKNOWN = 11  # a token in a row of the second process
WITH_UNKNOWN = IDS.copy()
WITH_UNKNOWN[5, 2] = UNKNOWN


def overflowing():
    """A GPT whose gradients are NaN in the second process, in one batch of three."""
    model = models.GPT(max_sequence_length=STEPS, tie_embeddings=False, **SIZES)
    embedding = model.weights[0]
    rows = np.arange(SIZES["vocabulary_size"])[:, None] == UNKNOWN
    embedding.assign(np.where(rows, np.nan, embedding.numpy()))
    return model


CASES = {
    "tagger": (
        lambda: models.SequenceTagger("elman", 5, vocabulary_size=11, units=3),
        {"x": IDS, "y": IDS % 5},
    ),
    "classifier": (
        lambda: models.SequenceClassifier("gru", 3, vocabulary_size=11, units=5),
        {"x": IDS, "y": np.arange(ROWS) % 3, "sample_weight": WEIGHTS},
    ),
    "gpt": (
        lambda: models.GPT(max_sequence_length=STEPS, **SIZES),
        {"x": IDS, "y": np.roll(IDS, -1, axis=1), "sample_weight": OF_TOKENS},
    ),
    "bert": (pretraining, None),
    "factored": (
        # Without biases of keys, whose gradients are rounding errors that the optimizer
        # divides by their size.
        lambda: models.GPT(
            max_sequence_length=STEPS, use_query_key_value_bias=False, **SIZES
        ),
        {"x": IDS, "y": np.roll(IDS, -1, axis=1), "sample_weight": OF_TOKENS},
    ),
    "scaled": (
        overflowing,
        {"x": WITH_UNKNOWN, "y": IDS, "sample_weight": OF_TOKENS},
    ),
}
DIVIDED = "/divided"  # after the name of a case: the weights too, not on TensorFlow
USUAL, EVERY = ("tagger",), ("tagger", "classifier", "gpt", "bert")
OF_PROCESSES = ("tagger", "gpt")
if keras.backend.backend() == "torch":
    USUAL += ("gpt" + DIVIDED,)
    EVERY += tuple(f"{name}{DIVIDED}" for name in ("gpt", "bert", "factored", "scaled"))
if keras.backend.backend() == "jax":
    OF_PROCESSES = ("tagger", "gpt" + DIVIDED, "bert" + DIVIDED)
PARTS = {name: {"micro_batches": 2} for name in ("gpt", "bert")}
if keras.backend.backend() == "jax":  # where devices change nothing in a step but this
    PARTS["tagger"] = {"micro_batches": 2}


def compiled(name, **options):
    """Returns a model from the same seed, and the arguments of `fit`."""
    name = name.removesuffix(DIVIDED)
    keras.utils.set_random_seed(3)
    make, data = CASES[name]
    model = make()
    # On one device of TensorFlow Keras takes the norm of the rows of an embedding
    # before they are added up, if no other layer has its weights.
    clip = {"global_clipnorm": 0.5} if name in ("gpt", "scaled") else {}
    optimizer = keras.optimizers.SGD(0.2, momentum=0.9, **clip)
    if name == "factored":
        optimizer = keras.optimizers.Adafactor(0.05)
    if name == "scaled":
        scale = {"initial_scale": 2.0**10, "dynamic_growth_steps": 2}
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, **scale)
    model.compile(optimizer, **options)
    data = data or dict(zip(("x", "y", "sample_weight"), model.rows, strict=True))
    return model, {**data, "batch_size": 4, "shuffle": False, "verbose": 0}


def results(model, data):
    """Returns scores, outputs and weights."""
    data = {**data, "batch_size": ROWS}
    del data["shuffle"]
    scores = model.evaluate(**data, return_dict=True)
    outputs = model.predict(data["x"], batch_size=ROWS, verbose=0)
    states = [keras.ops.convert_to_numpy(v) for v in model.optimizer.variables]
    found = {"outputs": outputs, "weights": model.get_weights(), "states": states}
    return {**found, **scores}


def main(devices, names):
    """Trains for four epochs of three steps: all on one device; the first on several.

    The second half is trained on several, and on one that resumes from a checkpoint.
    """
    with training.on_devices(devices), tempfile.TemporaryDirectory() as folder:
        with training.on_devices(devices):
            pass  # which does not end the outer block
        assert kernels.divides_rows() or keras.backend.backend() == "jax"
        found = {name: on_several(name, f"{folder}/{name}") for name in names}
        is_torch = keras.backend.backend() == "torch"
        if is_torch and any(name.endswith(DIVIDED) for name in names):
            check_memory(devices)
        if training.is_first_process():
            kept = {name: checkpoint.read(f"{folder}/{name}/{FILE}") for name in names}
    if not training.is_first_process():
        return
    for name in names:
        model, data = compiled(name)
        history = model.fit(**data, epochs=EPOCHS)
        same({**history.history, **results(model, data)}, found[name], name)
        expected = model.get_weights()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.write(f"{folder}/{FILE}", *kept[name])
            first = training.restore(model, folder)
        assert first == EPOCHS // 2
        model.fit(**data, initial_epoch=first, epochs=EPOCHS)
        same(model.get_weights(), expected, name)
        print(name)


def on_several(name, folder):
    """Trains on several devices, in parts too; returns losses, scores and weights."""
    is_divided = name.endswith(DIVIDED)
    with training.on_devices(parallel="model") if is_divided else in_outer():
        options = PARTS.get(name.removesuffix(DIVIDED), {})
        model, data = compiled(name, **options)
        every = is_divided or training.is_first_process()
        saved = [training.Checkpoint(folder)] if every else []
        first = model.fit(**data, epochs=EPOCHS // 2, callbacks=saved).history
        after = model.fit(**data, initial_epoch=EPOCHS // 2, epochs=EPOCHS).history
        losses = {metric: first[metric] + after[metric] for metric in first}
        return {**losses, **results(model, data)}


def in_outer():
    """The block that is open."""
    return contextlib.nullcontext()


def check_memory(devices):
    """Raises unless each process of PyTorch holds its share of a GPT, and prints it."""
    from tests.kernels import torch_memory

    ids = RNG.integers(1, 211, (4, STEPS))
    with training.on_devices(parallel="model"):
        before = torch_memory.size_of_tensors()
        model = models.GPT(vocabulary_size=211, num_heads=4, hidden_dim=64)
        model.compile(keras.optimizers.Adam())
        model.fit(ids, np.roll(ids, -1, axis=1), verbose=0)
        held = torch_memory.size_of_tensors() - before
    whole = 4 * model.count_params()  # weights, gradients and two states of Adam
    print(f"{held / whole:.3f} of the numbers on each of {devices}", file=sys.stderr)
    assert held < 1.05 * whole / devices


def same(one, other, name):
    for a, b in zip(keras.tree.flatten(one), keras.tree.flatten(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
