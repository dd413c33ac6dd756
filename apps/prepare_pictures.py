"""Trains the networks of the lab Pictures: `python apps/prepare_pictures.py FILE`.

It runs the code that the lab shows, keeps the weights, and measures the networks on
scenes that they were not trained on: ten minutes on one core.
"""

import argparse
import pathlib

import numpy as np

COUNT = 128  # scenes of each test
NOISE = 0.05


def main() -> None:
    """Trains, measures, and writes weights as half floats, with the figures."""
    from labs.code import pictures as code

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    arrays: dict[str, np.ndarray] = {}
    for head, measure in (("contrastive", matched), ("caption", described)):
        for done, network, loss in code.train(head, code.STEPS[head], 0):
            print(f"{head}, {done} steps: loss {loss:.3f}", flush=True)
            model = network
        halves = [weight.astype("float16") for weight in model.get_weights()]
        model.set_weights([weight.astype("float32") for weight in halves])
        arrays |= {f"{head}_{n}": weight for n, weight in enumerate(halves)}
        for name, share in measure(model).items():
            print(f"{name}: {share:.3f}", flush=True)
            arrays[f"quality_{name}"] = np.array(share)
    np.savez_compressed(options.file, **arrays)
    print(f"{options.file.stat().st_size:,} bytes")


def tests():
    """Yields scenes of one shape and of two in each language, with their kind."""
    from labs.code import pictures as code

    for language in ("en", "fr"):
        for objects in (1, 2):
            scenes = code.captioned(COUNT, 700_001, (language,), (objects,), NOISE)
            yield f"{objects}_{language}", scenes[0]


def matched(model):
    """Returns shares of scenes whose own caption is the nearest of all, and back."""
    found = {}
    for kind, scenes in tests():
        rows = list({text: n for n, text in enumerate(scenes.texts)}.values())
        scenes = scenes.take(rows)  # no caption twice
        cosines = model.embed_images(scenes.images) @ model.embed_texts(scenes.texts).T
        found[f"captions_{kind}"] = len(rows)
        for name, each in (("image", cosines), ("text", cosines.T)):
            right = each.argmax(axis=1) == np.arange(len(each))
            found[f"{name}_{kind}"] = float(right.mean())
    return found


def described(model):
    """Returns shares of scenes whose caption is right, or is but for the relation."""
    from labs.code import pictures as code
    from parts import scenes as lab

    found = {}
    for kind, scenes in tests():
        written = [
            text.replace(" - ", "-")
            for text in code.describe(model, scenes.images, scenes.language)
        ]
        right = [text in scenes.true_captions(n) for n, text in enumerate(written)]
        found[f"exact_{kind}"] = float(np.mean(right))
        if kind.startswith("2"):
            each = zip(scenes.colors, scenes.shapes, scenes.sizes, strict=True)
            named = [
                text
                in lab.any_relation(tuple(zip(*looks, strict=True)), scenes.language)
                for text, looks in zip(written, each, strict=True)
            ]
            found[f"named_{kind}"] = float(np.mean(named))
    return found


if __name__ == "__main__":
    main()
