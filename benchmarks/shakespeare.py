"""Test loss of a character GPT, beside a GPT of the same shape in plain PyTorch.

The settings of nanoGPT's small model: 4 layers, 4 heads, hidden size 128, sequence
length 64, batch size 12, AdamW with cosine decay from 1e-3 to 1e-4 after 100 warm-up
steps, betas 0.9 and 0.99, weight decay 0.1, gradients clipped to norm 1, 2000 steps.
Both models are trained on the same batches of the first nine tenths of the text. The
loss, in nats per character, is that of the last tenth in sequences of 64.

With `--attention` the same GPT is trained with other layers in place of attention.
"""

import functools
import math
import pathlib
import time

import numpy as np

SHAPE = {"layers": 4, "heads": 4, "width": 128}
LENGTH, BATCH_SIZE, LEARNING_RATE, WARM_UP = 64, 12, 1e-3, 100


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--text",
        type=pathlib.Path,
        help="a text file (default: the Python language reference)",
    )
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--models", default="kerasseq,plain PyTorch")
    parser.add_argument(
        "--attention",
        default="",
        help="names of layers in place of attention, without positions, such as "
        "min_gru,gla: see kerasseq.layers.TransformerDecoder",
    )


def run(options):
    """Trains the models, and returns a table of losses."""
    from kerasseq import datasets, text

    source = datasets.text_file(options.text) if options.text else None
    source = source or datasets.python_reference()
    tokenizer = text.CharacterTokenizer(unknown=None).fit(source)
    ids = tokenizer.encode(source)
    cut = int(0.9 * len(ids))
    table = []
    trained = {"kerasseq": train_kerasseq, "plain PyTorch": train_torch}
    for name in filter(None, options.attention.split(",")):
        layer = {"attention": name, "position": None}
        trained[name] = functools.partial(train_kerasseq, **layer)
    names = [*filter(None, options.models.split(",")), *list(trained)[2:]]
    for seed in map(int, options.seeds.split(",")):
        for name in names:
            train = trained[name]
            start = time.perf_counter()
            loss = train(ids[:cut], ids[cut:], tokenizer, options.steps, seed)
            seconds = round(time.perf_counter() - start)
            table.append(
                {"seed": seed, "model": name, "loss": loss, "seconds": seconds}
            )
    means = {
        f"mean loss of {name}": float(
            np.mean([r["loss"] for r in table if r["model"] == name])
        )
        for name in names
    }
    return {"characters": len(ids), "steps": options.steps, **means, "table": table}


def train_kerasseq(train_ids, test_ids, tokenizer, steps, seed, **arguments):
    """Trains `kerasseq.models.GPT` with more arguments and returns its test loss."""
    import keras

    from kerasseq import models, training

    keras.utils.set_random_seed(seed)
    model = models.GPT(
        tokenizer,
        num_layers=SHAPE["layers"],
        num_heads=SHAPE["heads"],
        hidden_dim=SHAPE["width"],
        max_sequence_length=LENGTH,
        **arguments,
    )
    model.compile(training.gpt_optimizer(model, LEARNING_RATE, steps, warm_up=WARM_UP))
    model.fit(
        train_ids,
        sequence_length=LENGTH,
        batch_size=BATCH_SIZE,
        steps_per_epoch=steps,
        seed=seed,
        verbose=0,
    )
    total = count = 0
    for x, y in sequences(test_ids):
        logits = np.asarray(model.predict_on_batch(x), "float64")
        logits -= logits.max(-1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        total -= np.take_along_axis(log_p, y[..., None], -1).sum()
        count += y.size
    return float(total / count)


def train_torch(train_ids, test_ids, tokenizer, steps, seed):
    """Trains the GPT in plain PyTorch and returns its test loss."""
    import torch

    from benchmarks.plain_gpt import PlainGPT, optimizer
    from kerasseq.training import TextBatches

    torch.manual_seed(seed)
    model = PlainGPT(tokenizer.vocabulary_size, LENGTH, **SHAPE)
    adam = optimizer(model, LEARNING_RATE)
    batches = TextBatches(train_ids, LENGTH, BATCH_SIZE, seed)
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = learning_rate(step, steps)
        x, y = (torch.from_numpy(part) for part in batches.batch(step))
        adam.zero_grad()
        model.loss(x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    model.eval()
    with torch.no_grad():
        losses = [
            (model.loss(torch.from_numpy(x), torch.from_numpy(y)).item(), y.size)
            for x, y in sequences(test_ids)
        ]
    losses, sizes = np.transpose(losses)
    return float((losses * sizes).sum() / sizes.sum())


def learning_rate(step, steps):
    """Returns the learning rate of a step."""
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / WARM_UP
    progress = (step - WARM_UP) / max(steps - WARM_UP, 1)
    return LEARNING_RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * min(progress, 1))))


def sequences(ids, batch_size=128):
    """Yields batches of inputs and targets that cover the ids once."""
    count = (len(ids) - 1) // LENGTH
    x = ids[: count * LENGTH].reshape(count, LENGTH)
    y = ids[1 : count * LENGTH + 1].reshape(count, LENGTH)
    for start in range(0, count - count % batch_size or count, batch_size):
        yield x[start : start + batch_size], y[start : start + batch_size]
