"""Trains the models of the lab Experts: `python apps/prepare_experts.py experts.npz`.

It runs the code that the lab shows, for each number of chosen experts and coefficient
of the balance loss, and keeps weights and curves: half a minute on one core.
"""

import argparse
import itertools
import pathlib

import numpy as np


def main() -> None:
    """Trains, and writes weights and curves as half floats."""
    from labs.code import experts as code
    from parts import routing

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=routing.STEPS)
    options = parser.parse_args()
    arrays: dict[str, np.ndarray] = {}
    for kind in itertools.product(routing.CHOSEN, routing.COEFFICIENTS):
        settings = routing.Settings(routing.EXPERTS, *kind)
        changed = settings._replace(steps=options.steps)
        model, loads, losses = code.train(*changed)
        name = settings.name()
        arrays |= {f"{name}_{n}": w for n, w in enumerate(model.get_weights())}
        arrays |= {f"loads_{name}": loads, f"losses_{name}": losses}
        load = routing.busiest(loads)
        print(f"{name}: busiest {load:.2f}, loss {losses[-1]:.3f}", flush=True)
    halves = {name: values.astype("float16") for name, values in arrays.items()}
    np.savez_compressed(options.file, **halves)
    print(f"{options.file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
