"""Trains the machine of the lab Tape: `python apps/prepare_tape.py tape.npz`.

Copies of 1 to 10 random vectors, 1,250 steps of 16, Adam with rate 1e-2. The weights
kept are the best on copies of 10 and 20 vectors, tried every 25 steps, since runs fall
back. It takes two minutes on one core; not each seed succeeds.
"""

import argparse
import pathlib

import numpy as np

STEPS, BATCH, EVERY, TESTED = 1250, 16, 25, (10, 20)


def main() -> None:
    """Trains, and writes the weights as half floats."""
    from parts import tapes

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    model, best = trained(tapes, options.seed, options.steps)
    weights = [weight.astype("float16") for weight in model.get_weights()]
    np.savez_compressed(options.file, *weights)
    print(f"{best:.4f} of the bits of {TESTED} vectors are right")


def trained(tapes, seed, steps):
    """Returns the machine with its best weights, and the share of right bits."""
    import keras

    from kerasseq import datasets

    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    model = tapes.machine()
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss)
    best, weights = -1.0, model.get_weights()
    for step in range(1, steps + 1):
        n = int(rng.integers(1, tapes.TRAINED + 1))
        of_step = {"lengths": (n, n), "seed": int(rng.integers(2**31))}
        data = datasets.copy_bits(BATCH, bits=tapes.BITS, **of_step)
        model.train_on_batch(data.x, data.y, data.weights)
        if step % EVERY == 0 or step == steps:
            score = np.mean([right_bits(model, tapes.BITS, n) for n in TESTED])
            print(f"step {step}: {score:.4f}", end="\r", flush=True)
            if score > best:
                best, weights = float(score), model.get_weights()
    model.set_weights(weights)
    return model, best


def right_bits(model, bits, length):
    """Returns the share of the bits of 32 new copies that are right."""
    from kerasseq import datasets

    data = datasets.copy_bits(32, bits=bits, lengths=(length, length), seed=7)
    found = np.asarray(model.predict_on_batch(data.x)) > 0
    return float((found == data.y)[data.weights > 0].mean())


if __name__ == "__main__":
    main()
