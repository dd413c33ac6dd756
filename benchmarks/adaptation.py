"""Adaptation of a GPT to another text: all weights, LoRA, QLoRA, or from scratch.

A GPT of 2 blocks and width 128 is pretrained on the Python language reference, by
characters, 2,000 steps of 12 sequences of 64. Then it is trained on another text, 300
such steps with AdamW, and the loss in nats per character is that of 16,384 held-out
characters of this text:

- base: before; nf4: the same with dense kernels of 4 bits.
- full: all weights; scratch: a new GPT on these steps alone. The better of two rates.
- lora: rank 8 of all dense layers, the best of three rates, 5 to 10 times that of full;
  rank 2 and a small rate beside it.
- qlora: the same over kernels of 4 bits, at the best of its rates.

`share` is how much of the gap from base to full LoRA closes. With `--out FILE` each
seed is a line of the file.
"""

import pathlib

import numpy as np

from benchmarks.options import at_least, positive
from benchmarks.resumed import add_resume_arguments, run_all

SHAPE = {"num_layers": 2, "num_heads": 4, "hidden_dim": 128}
LENGTH, BATCH_SIZE, TESTED = 64, 12, 256
FULL, ADAPTED = ("1e-3", "2e-3"), ("5e-3", "1e-2", "2e-2")
RANK, SMALL_RANK, SMALL_RATE = 8, 2, "1e-3"


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--text",
        type=pathlib.Path,
        required=True,
        help="the other text, such as Tiny Shakespeare",
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int), default=300)
    parser.add_argument(
        "--pretraining", type=at_least(0, int), default=2000, help="steps before"
    )
    add_resume_arguments(parser)


def run(options):
    """Trains all of them for each seed, and returns a table of losses."""
    common = {"steps": options.steps, "pretraining": options.pretraining}
    runs = [
        {"text": str(options.text), "seed": int(seed), **common}
        for seed in options.seeds.split(",")
    ]
    table = run_all(runs, train, options)
    return {"mean": _means(table), "table": table}


def _means(table):
    names = ("share", "qlora - lora", "nf4 - base")
    return {name: float(np.mean([row[name] for row in table])) for name in names}


def train(run):
    """Pretrains, adapts in each way, and returns the losses."""
    from kerasseq import datasets, text

    source, other = datasets.python_reference(), datasets.text_file(run["text"])
    tokenizer = text.CharacterTokenizer(unknown=None).fit(source + other)
    before, ids = tokenizer.encode(source), tokenizer.encode(other)
    cut = int(0.9 * len(ids))
    x = ids[cut:][: TESTED * LENGTH + 1]
    rows = (len(x) - 1) // LENGTH
    tested = [part[: rows * LENGTH].reshape(rows, LENGTH) for part in (x[:-1], x[1:])]
    seed, steps = run["seed"], run["steps"]

    def model(weights=None):
        return _model(tokenizer, seed, weights)

    def trained(start, rate):
        _fit(start, ids[:cut], steps, float(rate), seed)
        return _loss(start, tested)

    base = model()
    if run["pretraining"]:
        _fit(base, before, run["pretraining"], 1e-3, seed)
    weights = base.get_weights()
    rounded = model(weights)
    rounded.quantize("nf4")
    found = {"base": _loss(base, tested), "nf4": _loss(rounded, tested)}
    found |= {f"full {r}": trained(model(weights), r) for r in FULL}
    found |= {f"scratch {r}": trained(model(), r) for r in FULL}
    for rank, rates in ((RANK, (*ADAPTED, SMALL_RATE)), (SMALL_RANK, ADAPTED[1:2])):
        for rate in rates:
            adapted = model(weights)
            adapted.enable_lora(rank, "all-linear")
            found[f"lora {rank} {rate}"] = trained(adapted, rate)
    best = {n: _best(found, n) for n in ("full", "scratch", f"lora {RANK}")}
    adapted = model(weights)
    adapted.quantize("nf4")
    adapted.enable_lora(RANK, "all-linear")
    rate = min(ADAPTED, key=lambda r: found[f"lora {RANK} {r}"])
    found["qlora"] = trained(adapted, rate)
    gap = found["base"] - best["full"]
    lora = best[f"lora {RANK}"]
    return {
        **found,
        "share": (found["base"] - lora) / gap,
        "lora - scratch": lora - best["scratch"],
        "qlora - lora": found["qlora"] - lora,
        "nf4 - base": found["nf4"] - found["base"],
        "trained": sum(int(np.prod(w.shape)) for w in adapted.trainable_weights),
        "weights": base.count_params(),
    }


def _model(tokenizer, seed, weights):
    import keras

    from kerasseq import models

    keras.utils.set_random_seed(seed)
    model = models.GPT(tokenizer, **SHAPE, max_sequence_length=LENGTH)
    if weights is not None:
        model.set_weights(weights)
    return model


def _fit(model, ids, steps, rate, seed):
    """Trains a model, or its adapter, with AdamW."""
    from kerasseq import training

    model.compile(training.gpt_optimizer(model, rate, steps))
    sizes = {"sequence_length": LENGTH, "batch_size": BATCH_SIZE}
    model.fit(ids, steps_per_epoch=steps, seed=seed, verbose=0, **sizes)


def _loss(model, tested):
    """The mean loss of all held-out characters, in nats."""
    x, y = tested
    return float(
        model.evaluate(x, y, batch_size=64, verbose=0, return_dict=True)["loss"]
    )


def _best(found, name):
    return min(loss for key, loss in found.items() if key.startswith(f"{name} "))
