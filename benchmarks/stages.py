"""One small GPT through five stages, with the backend changed at each stage.

The GPT writes digits. Its stages, each in a process of its own:

- pretrained: on random digits.
- adapted: a LoRA of rank 4 on digits in ascending order, in a file beside the model.
- aligned: the adapter is trained by DPO on pairs; more even digits are chosen.
- quantized: the adapter is merged, and the kernels are rounded, to int8 and to nf4.
  Activations are not: a difference in the last digit can make another integer of one,
  and logits differ by 0.002 then between programs on the same backend.
- exported: by Keras' `export`, as a SavedModel of TensorFlow, from JAX too, or as a
  program of PyTorch.

A stage gets `.keras` files and the logits of the stage before. It loads them, and its
own logits must be the same to 1e-4; so must those of the pretrained model with the
file of the adapter, and those of the exported program, loaded again. The file of the
adapter has at most 4 bytes a trained weight and 4,096 more.

Of the 48 sequences of backends 12 are run, in which each hand-over between two of the
three occurs eight times, twice at each place. `1 > 2` to `4 > 5` are the largest
differences of logits before and after a hand-over; `int8` and `nf4` those by rounding.
"""

import collections
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks.options import positive

BACKENDS = ("tensorflow", "jax", "torch")
STAGES = ("pretrained", "adapted", "aligned", "quantized", "exported")
# The steps around the circle of backends from stage to stage.
CHANGES = ((1, 1, 1, 1), (2, 2, 2, 2), (1, 2, 1, 2), (2, 1, 2, 1))
TOLERANCE = 1e-4
RANK, HEADER = 4, 4096  # bytes of the names and shapes in a file of an adapter
IDS = np.random.default_rng(0).integers(11, size=(7, 13))


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--steps", type=positive(int), default=40, help="of each kind of training"
    )
    parser.add_argument(
        "--sequences", type=positive(int), default=12, help="how many of the 12"
    )
    parser.add_argument(
        "--folder", type=pathlib.Path, help="for the models; a temporary one if not set"
    )


def run(options):
    """Takes the model through the sequences, and returns a table."""
    with tempfile.TemporaryDirectory() as temporary:
        root = options.folder or pathlib.Path(temporary)
        chosen = sequences()[: options.sequences]
        return {"table": [row_of(root, each, options.steps) for each in chosen]}


def sequences():
    """The 12 sequences, in which each hand-over occurs at least four times."""
    found = []
    for start, changes in itertools.product(range(3), CHANGES):
        places = itertools.accumulate(changes, initial=start)
        found.append(tuple(BACKENDS[place % 3] for place in places))
    counts = collections.Counter(
        pair for each in found for pair in itertools.pairwise(each)
    )
    assert len({*found}) == 12
    assert {*counts} == {*itertools.permutations(BACKENDS, 2)}
    assert min(counts.values()) >= 4
    return found


def row_of(root, backends, steps):
    """Runs the stages of a sequence, and returns its row of the table."""
    row, numbers = {"backends": " ".join(backends)}, []
    for n, stage in enumerate(STAGES):
        folder = root / "-".join(backends[: n + 1])
        if not (folder / "numbers.json").exists():  # shared with another sequence
            in_process(backends[n], stage, folder, root, backends, steps)
        numbers.append(json.loads((folder / "numbers.json").read_text()))
        if n:
            row[f"{n} > {n + 1}"] = numbers[-1]["hand-over"]
    row |= {name: numbers[1][name] for name in ("adapter bytes", "limit")}
    row |= {"DPO loss": numbers[2]["loss"]}
    row |= {mode: numbers[3][mode] for mode in ("int8", "nf4")}
    return {**row, "export": numbers[4]["export"]}


def in_process(backend, stage, folder, root, backends, steps):
    """Runs a stage in a process with its backend.

    Raises:
        RuntimeError: If it ends with an error.
    """
    before = root / "-".join(backends[: STAGES.index(stage)])
    code = "import sys; from benchmarks import stages; stages.work(*sys.argv[1:])"
    words = [stage, folder, before, root / backends[0], steps]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{stage} on {backend} failed:\n{done.stderr[-3000:]}")


def work(stage, folder, before, first, steps):
    """Runs a stage in this process.

    Args:
        stage: Its name.
        folder: The folder of its files.
        before: The folder of the stage before.
        first: The folder of the pretrained model.
        steps: Training steps.
    """
    folder, before, first = map(pathlib.Path, (folder, before, first))
    folder.mkdir(parents=True)
    models, numbers = {}, {}
    if stage != "pretrained":
        models, difference = handed_over(before)
        numbers["hand-over"] = difference
    if stage == "aligned":
        numbers["adapter"] = with_adapter(first, before)
    numbers |= WORK[stage](models, folder, int(steps))
    (folder / "numbers.json").write_text(json.dumps(numbers))


def handed_over(before):
    """Loads the models of the stage before; returns them and how logits differ."""
    import kerasseq

    models, differences = {}, []
    for file in sorted(before.glob("*.keras")):
        models[file.stem] = kerasseq.load_model(file)
        wanted = np.load(file.with_suffix(".npy"))
        differences.append(difference(logits(models[file.stem]), wanted))
    return models, checked(max(differences), before)


def with_adapter(first, before):
    """How logits of the pretrained model with the adapter's file differ."""
    import kerasseq

    model = kerasseq.load_model(first / "model.keras")
    model.load_lora_weights(before / "adapter.safetensors")
    found = difference(logits(model), np.load(before / "model.npy"))
    return checked(found, before / "adapter.safetensors")


def checked(found, where):
    """Returns a difference of logits.

    Raises:
        ValueError: If it is above the tolerance.
    """
    if not found <= TOLERANCE:
        raise ValueError(f"logits must agree to {TOLERANCE}, received {found}: {where}")
    return found


def logits(model):
    """The logits of fixed ids."""
    return np.asarray(model.predict(IDS, verbose=0))


def difference(a, b):
    """The largest difference."""
    return float(np.max(np.abs(a - b)))


def keep(model, folder, name="model"):
    """Writes a model and its logits."""
    model.save(folder / f"{name}.keras")
    np.save(folder / f"{name}.npy", logits(model))


def pretrain(models, folder, steps):
    """Trains a GPT to write random digits."""
    import keras

    from benchmarks.preferences import writer

    keras.utils.set_random_seed(0)
    keep(writer(steps, seed=0), folder)
    return {}


def adapt(models, folder, steps):
    """Trains an adapter on digits in ascending order."""
    import keras

    model = models["model"]
    model.enable_lora(RANK, "all-linear")
    model.compile(keras.optimizers.Adam(5e-3))
    rng = np.random.default_rng(1)
    digits = np.sort(rng.integers(10, size=(steps * 32, 8)))
    rows = [":" + "".join(map(str, row)) for row in digits.tolist()]
    ids = np.stack(model.tokenizer.encode(rows))
    model.fit(ids[:, :-1], ids[:, 1:], batch_size=32, verbose=0)
    keep(model, folder)
    file = folder / "adapter.safetensors"
    model.save_lora_weights(file)
    count = sum(int(np.prod(each.shape)) for each in model.trainable_weights)
    size, limit = file.stat().st_size, 4 * count + HEADER
    if size > limit:
        raise ValueError(
            f"the adapter must have at most {limit} bytes, received {size}"
        )
    return {"adapter bytes": size, "limit": limit}


def align(models, folder, steps):
    """Trains the adapter by DPO on pairs of the model's answers."""
    import keras

    from benchmarks.preferences import judged
    from kerasseq import training

    model = models["model"]
    pairs = judged(model, "best", 8 * steps, seed=0)
    trainer = training.DPO(model)
    trainer.compile(keras.optimizers.Adam(1e-3))
    history = trainer.fit(pairs, batch_size=8, verbose=0).history
    keep(model, folder)
    return {"loss": history["loss"][-1]}


def quantize(models, folder, steps):
    """Merges the adapter, and rounds the kernels in both ways."""
    import keras

    model, numbers = models["model"], {}
    model.merge_lora()
    wanted = logits(model)
    of_weights = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    for mode, config in (("int8", of_weights), ("nf4", None)):
        rounded = type(model).from_config(model.get_config())
        rounded.set_weights(model.get_weights())
        rounded.quantize(mode, config)
        keep(rounded, folder, mode)
        numbers[mode] = difference(logits(rounded), wanted)
    return numbers


def export(models, folder, steps):
    """Exports both models, and loads what was exported again."""
    found = {}
    for mode, model in models.items():
        program = exported(model, str(folder / mode))
        found[mode] = checked(difference(program(IDS), logits(model)), mode)
    return {"export": max(found.values())}


def exported(model, path):
    """Exports a model; returns what is loaded again, as a function of arrays."""
    import keras

    if keras.config.backend() == "torch":
        import torch

        file = f"{path}.pt2"
        signature = [keras.InputSpec(shape=IDS.shape, dtype="int32")]
        model.export(file, "torch", verbose=False, input_signature=signature)
        program = torch.export.load(file).module()
        return lambda ids: (
            program(torch.tensor(ids, dtype=torch.int32)).detach().numpy()
        )
    import tensorflow as tf

    model.export(path, "tf_saved_model", verbose=False)
    program = tf.saved_model.load(path)
    return lambda ids: program.serve(tf.constant(ids, "int32")).numpy()


WORK = dict(zip(STAGES, (pretrain, adapt, align, quantize, export), strict=True))
