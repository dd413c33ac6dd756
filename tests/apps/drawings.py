"""Ten drawings as a mouse makes them, and how many of them a trained model reads.

    python -m tests.apps.drawings FOLDER_OF_A_RUN

The run is one of `kerasseq train images --data digits`. Each stroke is an array of
points on a canvas of 256 × 256, y downwards. The lines are not smooth and lean to the
right, as those of a hand.
"""

import sys

import numpy as np

from tests.processes import ROOT

SLANT, SHAKE = 0.12, 3.0


def arc(x, y, width, height, first, last, points=24):
    """A part of an ellipse; angles in degrees, 0 is right and 90 is down."""
    angle = np.radians(np.linspace(first, last, points))
    return np.stack([x + width * np.cos(angle), y + height * np.sin(angle)], axis=1)


def line(*corners, points=12):
    """A line through corners."""
    corners = np.array(corners, "float64")
    at = np.linspace(0, len(corners) - 1, points * (len(corners) - 1))
    return np.stack([np.interp(at, range(len(corners)), c) for c in corners.T], axis=1)


def smooth(*parts):
    return np.concatenate(parts)


SHAPES = {
    0: [arc(128, 128, 48, 80, -100, 250, 40)],
    1: [line((100, 90), (130, 50), (130, 210))],
    2: [
        smooth(arc(125, 90, 45, 42, 190, 385), line((166, 108), (80, 205), (180, 205)))
    ],
    3: [smooth(arc(122, 88, 42, 40, 200, 450), arc(120, 166, 50, 42, -90, 160))],
    4: [line((135, 45), (75, 150), (185, 150)), line((145, 100), (143, 215))],
    5: [
        smooth(line((95, 55), (90, 118)), arc(120, 155, 52, 45, -125, 150)),
        line((95, 55), (170, 52)),
    ],
    6: [smooth(line((150, 45), (95, 120)), arc(125, 160, 42, 45, 190, 550, 36))],
    7: [line((75, 55), (178, 55), (115, 210)), line((100, 130), (170, 125))],
    8: [
        smooth(
            arc(128, 90, 36, 38, -60, -270),
            arc(128, 168, 44, 42, -90, 270, 36),
            arc(128, 90, 36, 38, 90, -60),
        )
    ],
    9: [smooth(arc(122, 95, 40, 42, -20, -380, 36), line((160, 92), (150, 210)))],
}


def drawing(digit, seed=0):
    """The strokes of a digit, drawn by an unsteady hand."""
    rng = np.random.default_rng([seed, digit])
    found = []
    for stroke in SHAPES[digit]:
        leaning = stroke + SLANT * (128 - stroke[:, 1:]) * [1, 0]
        walk = rng.normal(0, SHAKE, stroke.shape).cumsum(axis=0) * 0.5
        found.append(np.clip(np.rint(leaning + walk), 0, 255).astype("int64"))
    return found


def main(folder):
    """Prints what a model reads in each drawing, and in other versions of it."""
    sys.path.insert(0, str(ROOT / "apps"))
    import kerasseq
    from labs.code.vision import image_of_strokes

    model = kerasseq.load_model(f"{folder}/model.keras")
    for seed in range(20):
        images = np.stack([image_of_strokes(drawing(n, seed)) for n in SHAPES])
        found = model.classify(images)
        read = "".join(each.label for each in found)
        right = sum(each.label == str(n) for n, each in enumerate(found))
        print(f"seed {seed}: read {read}, {right} of 10 right")


if __name__ == "__main__":
    main(*sys.argv[1:])
