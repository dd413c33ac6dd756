"""A character GPT on a text, beside a plain PyTorch GPT of the same shape.

The settings of nanoGPT's small model: 4 layers, 4 heads, width 128, blocks of 64, 12 in
a batch, AdamW from 1e-3 to 1e-4 by a cosine after 100 steps of warm-up, betas 0.9 and
0.99, weight decay 0.1, gradients clipped at 1, 2000 steps. The first nine tenths of the
text are learned; the loss is that of the whole rest, in blocks of 64, in nats per
character. Both models see the same batches.
"""

import math
import pathlib
import time

import numpy as np

SHAPE = {"layers": 4, "heads": 4, "width": 128}
BLOCK, BATCH, RATE, WARM_UP = 64, 12, 1e-3, 100


def add_arguments(parser):
    """What to train on, and how long."""
    parser.add_argument("--text", type=pathlib.Path, help="default: Python's reference")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--who", default="kerasseq,plain PyTorch")


def run(options):
    """Train, and give a table of losses."""
    from kerasseq import datasets, text

    source = datasets.text_file(options.text) if options.text else None
    source = source or datasets.python_reference()
    tokenizer = text.CharacterTokenizer(unknown=None).fit(source)
    ids = tokenizer.encode(source)
    cut = int(0.9 * len(ids))
    table = []
    for seed in map(int, options.seeds.split(",")):
        for who in options.who.split(","):
            train = {"kerasseq": ours, "plain PyTorch": plain}[who]
            began = time.perf_counter()
            loss = train(ids[:cut], ids[cut:], tokenizer, options.steps, seed)
            seconds = round(time.perf_counter() - began)
            table.append({"seed": seed, "who": who, "loss": loss, "seconds": seconds})
    means = {
        f"mean of {who}": float(np.mean([r["loss"] for r in table if r["who"] == who]))
        for who in options.who.split(",")
    }
    return {"characters": len(ids), "steps": options.steps, **means, "table": table}


def ours(learned, held_out, tokenizer, steps, seed):
    """The loss of `models.GPT`."""
    import keras

    from kerasseq import models, training

    keras.utils.set_random_seed(seed)
    model = models.GPT(
        tokenizer,
        num_layers=SHAPE["layers"],
        num_heads=SHAPE["heads"],
        hidden_dim=SHAPE["width"],
        max_sequence_length=BLOCK,
    )
    model.compile(training.gpt_optimizer(model, RATE, steps, warm_up=WARM_UP))
    model.fit(
        learned,
        sequence_length=BLOCK,
        batch_size=BATCH,
        steps_per_epoch=steps,
        seed=seed,
        verbose=0,
    )
    total = count = 0
    for x, y in blocks(held_out):
        logits = np.asarray(model.predict_on_batch(x), "float64")
        logits -= logits.max(-1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        total -= np.take_along_axis(log_p, y[..., None], -1).sum()
        count += y.size
    return float(total / count)


def plain(learned, held_out, tokenizer, steps, seed):
    """The loss of the plain PyTorch GPT."""
    import torch

    from benchmarks.plain_gpt import PlainGPT, optimizer
    from kerasseq.training import TextBatches

    torch.manual_seed(seed)
    model = PlainGPT(tokenizer.vocabulary_size, BLOCK, **SHAPE)
    adam = optimizer(model, RATE)
    batches = TextBatches(learned, BLOCK, BATCH, seed)
    for step in range(steps):
        adam.param_groups[0]["lr"] = adam.param_groups[1]["lr"] = rate(step, steps)
        x, y = (torch.from_numpy(part) for part in batches.batch(step))
        adam.zero_grad()
        model.loss(x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    model.eval()
    with torch.no_grad():
        losses = [
            (model.loss(torch.from_numpy(x), torch.from_numpy(y)).item(), y.size)
            for x, y in blocks(held_out)
        ]
    losses, sizes = np.transpose(losses)
    return float((losses * sizes).sum() / sizes.sum())


def rate(step, steps):
    """The learning rate of a step."""
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(steps - WARM_UP, 1)
    return RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * min(done, 1))))


def blocks(ids, rows=128):
    """The text in batches of blocks, each character but the first once."""
    count = (len(ids) - 1) // BLOCK
    x = ids[: count * BLOCK].reshape(count, BLOCK)
    y = ids[1 : count * BLOCK + 1].reshape(count, BLOCK)
    for start in range(0, count - count % rows or count, rows):
        yield x[start : start + rows], y[start : start + rows]
