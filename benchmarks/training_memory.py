"""Memory and time of a training step, with `remat` and `loss_chunk_size`.

A GPT of 12 blocks of width 128 with 4 heads, 4 texts of 512 tokens, GPT-2's vocabulary
of 50,257 tokens: all logits are 412 MB. Or a T5 with as many blocks, half of them in
the encoder, and sources of as many tokens. Each way runs in a process of its own.

Memory is, of JAX, what XLA plans for a step beside arguments and results; of the
others, by how much the peak of the process grows in the first step after one of a short
text, on TensorFlow with its compilation. Both, and the time of the next step, are also
given as ratios to the plain step.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

from benchmarks.options import add_names_arguments, positive

MODELS = "gpt", "t5"
WAYS = {
    "plain": {},
    "remat activations": {"remat": "activations"},
    "remat full": {"remat": "full"},
    "loss chunks": {"loss_chunk_size": 256},
    "full and chunks": {"remat": "full", "loss_chunk_size": 256},
}
# glibc gives freed memory back, so that a peak is that of what is in use.
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    whole = positive(int)
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    add_names_arguments(parser, [("--ways", [*WAYS], [*WAYS])])
    parser.add_argument("--vocabulary-size", type=whole, default=50_257)
    parser.add_argument("--num-layers", type=whole, default=12)
    parser.add_argument("--width", type=whole, default=128)
    parser.add_argument("--sequence-length", type=whole, default=512)
    parser.add_argument("--batch-size", type=whole, default=4)


def run(options):
    """Measures each way, and returns a table with a row for each."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    names = "vocabulary_size", "num_layers", "width", "sequence_length", "batch_size"
    sizes = {name: getattr(options, name) for name in ("model", *names)}
    table = []
    for way in options.ways:
        found = in_process({**sizes, "way": way}, backend)
        first = table[0] if table else found
        row = {"way": way, **found}
        row["memory"] = found["MB"] / first["MB"]
        row["time"] = found["seconds"] / first["seconds"]
        table.append(row)
    tokens = options.batch_size * options.sequence_length
    logits = tokens * options.vocabulary_size * 4 / 1e6
    return {"backend": backend, **sizes, "logits in MB": logits, "table": table}


def in_process(task, backend):
    """Measures one way in a process of its own."""
    environment = {**os.environ, **GIVE_BACK, "KERAS_BACKEND": backend}
    command = [sys.executable, "-m", "benchmarks.training_memory", json.dumps(task)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{task['way']} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(way, sequence_length, batch_size, **sizes):
    """Returns memory in MB, seconds of a step, and the losses of two steps."""
    import keras

    keras.utils.set_random_seed(0)
    model, read = made(sequence_length=sequence_length, **sizes)
    model.compile(keras.optimizers.SGD(0.1), **WAYS[way])
    shape, most = (batch_size, sequence_length + 1), sizes["vocabulary_size"]
    ids = np.random.default_rng(0).integers(3, most, shape).astype("int32")
    x, y = ids[:, :-1], ids[:, 1:]
    if keras.backend.backend() != "jax":
        model.train_on_batch(read(x[:1, :8]), y[:1, :8])
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    losses = [float(model.train_on_batch(read(x), y, return_dict=True)["loss"])]
    peak = status("VmHWM") - before
    start = time.perf_counter()
    losses.append(float(model.train_on_batch(read(x), y, return_dict=True)["loss"]))
    seconds = time.perf_counter() - start
    if keras.backend.backend() == "jax":
        peak = planned(model, read(x), y)
    return {"MB": peak / 1e6, "seconds": seconds, "losses": losses}


def made(model, vocabulary_size, num_layers, width, sequence_length):
    """Returns a model, and a function from ids to its inputs."""
    from kerasseq import models

    sizes = {"num_heads": 4, "hidden_dim": width}
    if model == "t5":  # reads its ids as source, and as target
        sizes |= {"num_layers": -(-num_layers // 2), "published_ids": True}
        t5 = models.T5(vocabulary_size=vocabulary_size, dropout=0.0, **sizes)
        return t5, lambda x: (x, x)
    sizes |= {"num_layers": num_layers, "max_sequence_length": sequence_length}
    return models.GPT(vocabulary_size=vocabulary_size, **sizes), lambda x: x


def status(name):
    """Returns a size of this process in bytes, as Linux counts it."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{name}:"))
    return 1024 * int(found.split()[1])


def planned(model, x, y):
    """Returns what XLA plans for a step, in bytes."""
    import jax

    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = [[variable.value for variable in group] for group in groups]
    step = jax.jit(model.train_step).lower(state, (x, y)).compile()
    return step.memory_analysis().temp_size_in_bytes


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
