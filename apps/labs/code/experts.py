"""What the lab Experts computes. The page shows these functions as its code."""

import inspect
import string

import numpy as np

MIDDLE, ROWS, LENGTH, EVERY = 200_000, 64, 64, 10


def make(num_experts, top_k, coefficient):
    """Returns a GPT of one block whose feed-forward network is a mixture of experts."""
    from kerasseq import layers, models, text

    experts = layers.MixtureOfExperts(
        num_experts,
        intermediate_dim=32,
        top_k=top_k,
        norm_topk_prob=top_k > 1,  # of one expert the gate would always be 1
        router_aux_loss_coef=coefficient,
        name="experts",
    )
    tokenizer = text.CharacterTokenizer().fit(string.printable)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 32}
    return models.GPT(
        tokenizer, **sizes, max_sequence_length=LENGTH, feed_forward=experts
    )


def reference(model):
    """Returns the text to train on, and the ids of the rest, `(ROWS, LENGTH + 1)`.

    The rest is from the middle: sentences of the end occur elsewhere, too.
    """
    from kerasseq import datasets

    text, end = datasets.python_reference(), MIDDLE + ROWS * (LENGTH + 1)
    ids = model.tokenizer.encode(text[MIDDLE:end]).reshape(ROWS, LENGTH + 1)
    return text[:MIDDLE] + text[end:], ids


def measure(model, ids):
    """Returns the share of the choices of each expert, and the loss."""
    import keras

    from kerasseq import tracing

    with tracing.trace(model) as inside:
        logits = model(ids[:, :-1])
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = keras.ops.convert_to_numpy(cross_entropy(ids[:, 1:], logits))
    return np.asarray(inside["block_0/experts/load"]), float(loss)


def train(num_experts, top_k, coefficient, steps, seed):
    """Trains on Python's reference; measures on a part of it that is not trained on.

    Returns:
        The model; loads `(n, num_experts)` and losses `(n,)`, every 10 steps.
    """
    import keras

    keras.utils.set_random_seed(seed)
    model = make(num_experts, top_k, coefficient)
    text, ids = reference(model)
    found = [measure(model, ids)]
    model.compile(keras.optimizers.Adam(3e-3))
    model.fit(
        text,
        sequence_length=32,
        batch_size=16,
        epochs=steps // EVERY,
        steps_per_epoch=EVERY,
        seed=seed,
        verbose=0,
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: found.append(measure(model, ids))
            )
        ],
    )
    loads, losses = map(np.array, zip(*found, strict=True))
    return model, loads, losses


def read(model, ids):
    """Returns the experts that read each token, and their gates, each `(B, T, k)`."""
    from kerasseq import tracing

    with tracing.trace(model) as inside:
        model(ids)
    names = "chosen", "gates"
    return [np.asarray(inside[f"block_0/experts/{name}"]) for name in names]


HEAD = f"""import string

import numpy as np

MIDDLE, ROWS, LENGTH, EVERY = {MIDDLE}, {ROWS}, {LENGTH}, {EVERY}
"""
READS = """
model, loads, losses = train({num_experts}, {top_k}, {coefficient}, {steps}, {seed})
print("loads:", loads[-1].round(2), "loss:", losses[-1])
text = {text}
[chosen], [gates] = read(model, model.tokenizer.encode(text)[None])
for character, experts, g in zip(text, chosen, gates):
    print(repr(character), "expert", experts + 1, "gate", g.round(2))
"""
BALANCE = """
for coefficient in {coefficients}:
    _, loads, losses = train({num_experts}, {top_k}, coefficient, {steps}, {seed})
    print("coefficient", coefficient, "loss at the end", losses[-1])
    for n, load in enumerate(loads):
        print("step", EVERY * n, "loads", load.round(2))
"""
QUICK = {"epochs=steps // EVERY": "epochs=1"}  # in tests the code trains few steps


def source(view):
    """Returns the code of a view, as a template."""
    used = (make, reference, measure, train, *([read] if view == "reads" else []))
    functions = "\n\n".join(inspect.getsource(f) for f in used)
    return f"{HEAD}\n\n{functions}\n{READS if view == 'reads' else BALANCE}"
