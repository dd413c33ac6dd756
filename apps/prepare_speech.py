"""Trains the network of the lab Speech: `python apps/prepare_speech.py speech.npz`.

It runs the code that the lab shows, and keeps the weights after some steps, and loss
and wrong characters by steps: three minutes on one core.
"""

import argparse
import pathlib

import numpy as np


def main() -> None:
    """Trains, and writes weights as half floats."""
    from labs.code import speech as code
    from parts import sounds

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    arrays: dict[str, np.ndarray] = {}
    curve = []
    for done, model, loss, wrong in code.train(code.STEPS, 0):
        curve.append((done, loss, wrong))
        print(f"{done} steps: loss {loss:.2f}, wrong {wrong:.3f}", flush=True)
        if done in sounds.KEPT:
            for n, weight in enumerate(model.get_weights()):
                arrays[f"{done}_{n}"] = weight.astype("float16")
    step, loss, wrong = zip(*curve, strict=True)
    arrays |= {"step": np.array(step), "loss": np.array(loss), "wrong": np.array(wrong)}
    np.savez_compressed(options.file, **arrays)
    print(f"{options.file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
