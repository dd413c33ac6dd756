"""Trains the models of the lab Chat: `python apps/prepare_chat.py chat_en.npz en`.

It runs the code that the lab shows, and keeps the weights after reading and after the
conversations, two minutes on one core.
"""

import argparse
import pathlib

import numpy as np


def main() -> None:
    """Trains, and writes the weights as half floats."""
    import keras

    from labs.code import chat as code
    from parts.code import fill

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("language", choices=("en", "fr"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few steps")
    options = parser.parse_args()
    keras.utils.set_random_seed(options.seed)
    names: dict[str, object] = {}
    weights: dict[str, np.ndarray] = {}
    for stage, template in (("read", code.READ), ("talk", code.TALK)):
        source = fill(template, language=options.language)
        for old, new in code.QUICK.items() if options.quick else ():
            source = source.replace(old, new)
        exec(compile(source, stage, "exec"), names)
        found = names["model"].get_weights()
        weights |= {f"{stage}_{n}": w.astype("float16") for n, w in enumerate(found)}
    np.savez_compressed(options.file, **weights)
    print(f"{options.file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
