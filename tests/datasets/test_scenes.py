"""Scenes: what pixels show against what captions and boxes tell."""

import collections

import numpy as np
import pytest

from kerasseq import datasets

COLORS = {
    "red": (255, 26, 26),
    "green": (26, 204, 26),
    "blue": (38, 64, 255),
    "yellow": (255, 242, 26),
    "purple": (166, 38, 191),
    "white": (255, 255, 255),
}
# Pixels of each shape by the width of its box: a circle has the points of the grid
# within the square roots of 4, 10 and 17, a triangle rows of 1, 1, 3, 3, 5 … pixels.
AREAS = {
    5: {"square": 25, "circle": 13, "triangle": 13, "cross": 9},
    7: {"square": 49, "circle": 37, "triangle": 25, "cross": 13},
    9: {"square": 81, "circle": 57, "triangle": 41, "cross": 45},
}
WIDTHS = {"small": 5, "medium": 7, "large": 9}
KINDS = {"places": {}, "relations": {"objects": 2}, "motions": {"frames": 4}}
WORDS = {  # a caption for each form of each word: gender, elision, order
    "places": (
        ("small", "green", "cross", "top left"),
        "a small green cross at the top left",
        "une petite croix verte en haut à gauche",
    ),
    "motions": (
        ("medium", "white", "square", "up"),
        "a white square moves up",
        "un carré blanc va vers le haut",
    ),
}
FORMS = {  # of the adjectives of French, masculine and feminine
    "red": ("rouge", "rouge"),
    "green": ("vert", "verte"),
    "blue": ("bleu", "bleue"),
    "yellow": ("jaune", "jaune"),
    "purple": ("violet", "violette"),
    "white": ("blanc", "blanche"),
    "small": ("petit", "petite"),
    "large": ("grand", "grande"),
}
NOUNS = {"square": "carré", "circle": "cercle", "triangle": "triangle"}
NOUNS["cross"] = "croix"


@pytest.fixture(scope="module", params=KINDS)
def scenes(request):
    return datasets.scenes(509, seed=3, **KINDS[request.param])


def found(picture, color):
    """The smallest box around the pixels of a color, and their number."""
    rows, columns = np.nonzero((picture == COLORS[color]).all(axis=-1))
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    return box, len(rows)


def test_pixels_show_what_is_told(scenes):
    assert scenes.images.dtype == np.uint8
    assert scenes.images.shape[-3:] == (24, 24, 3) and len(scenes) == 509
    for n, picture in enumerate(scenes.images):
        colors = scenes.colors[n]
        if len(set(colors)) < len(colors):
            continue  # two shapes of one color are read by their relation below
        for frame in range(len(picture) if picture.ndim == 4 else 1):
            shown = picture[frame] if picture.ndim == 4 else picture
            boxes = scenes.boxes[n][frame] if picture.ndim == 4 else scenes.boxes[n]
            area = 0
            for k, color in enumerate(colors):
                box, pixels = found(shown, color)
                assert box == boxes[k].tolist()
                width = WIDTHS[scenes.sizes[n][k]]
                assert (box[2] - box[0], box[3] - box[1]) == (width, width)
                assert pixels == AREAS[width][scenes.shapes[n][k]]
                area += pixels
            assert (shown.any(axis=-1)).sum() == area  # nothing else is painted


def middle(box):
    return (box[0] + box[2] - 1) / 2, (box[1] + box[3] - 1) / 2


def test_places_are_those_of_the_boxes():
    scenes = datasets.scenes(1009)
    for box, where in zip(scenes.boxes[:, 0], scenes.layouts, strict=True):
        x, y = middle(box)
        row = ("top", "", "bottom")[int(y // 8)]
        column = ("left", "", "right")[int(x // 8)]
        assert (f"{row} {column}".strip() or "center") == where
    assert len(set(scenes.texts)) > 380  # of 432


def test_exactly_one_relation_holds():
    scenes = datasets.scenes(1009, objects=2)
    for n, (a, b) in enumerate(scenes.boxes.tolist()):
        holds = {
            "left of": a[2] <= b[0],
            "right of": b[2] <= a[0],
            "above": a[3] <= b[1],
            "below": b[3] <= a[1],
        }
        assert [name for name, true in holds.items() if true] == [scenes.layouts[n]]
        apart = abs(np.subtract(middle(a), middle(b)))
        assert min(apart) <= 2 < 9 <= max(apart) <= 15
        axis = int(np.argmax(apart))  # on either side of the middle, 11.5
        assert abs(np.mean([middle(a)[axis], middle(b)[axis]]) - 11.5) <= 1.5
        looks = set(zip(scenes.colors[n], scenes.shapes[n], strict=True))
        assert len(looks) == 2
        words = [
            f"a {color} {shape}"
            for color, shape in zip(scenes.colors[n], scenes.shapes[n], strict=True)
        ]
        inverse = {"left of": "right of", "above": "below"}
        inverse |= {second: first for first, second in inverse.items()}
        assert scenes.true_captions(n) == [
            f"{words[0]} {scenes.layouts[n]} {words[1]}",
            f"{words[1]} {inverse[scenes.layouts[n]]} {words[0]}",
        ]
        assert scenes.texts[n] == scenes.true_captions(n)[0]
    counts = collections.Counter(scenes.layouts)
    assert len(counts) == 4 and min(counts.values()) > 200  # 252 are expected


def test_films_move_as_told_at_constant_speed_inside_the_picture():
    films = datasets.scenes(3001, frames=4)
    ways = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
    ways["still"] = (0, 0)
    starts = collections.defaultdict(list)
    for boxes, motion in zip(films.boxes[:, :, 0], films.layouts, strict=True):
        steps = np.diff(boxes[:, :2], axis=0)
        assert (steps == steps[0]).all()
        assert np.sign(steps[0]).tolist() == list(ways[motion])
        assert abs(steps[0]).max() in ((0,) if motion == "still" else (2, 3, 4))
        assert boxes.min() >= 0 and boxes.max() <= 24
        axis = int(motion in ("up", "down"))
        starts[motion].append((boxes[0][axis], abs(steps[0]).max()))
    assert {len(found) // 100 for found in starts.values()} <= {5, 6}  # 600 each
    assert films.texts[0].split()[-1] in ("left", "right", "up", "down", "still")
    for one, other in (("left", "right"), ("up", "down")):
        # Mirrored: a start `s` of one is `24 - 7 - s` of the other.
        mirrored = collections.Counter((17 - s, v) for s, v in starts[other])
        direct = collections.Counter(starts[one])
        assert set(direct) == set(mirrored)
        means = [
            np.mean([s for s, _ in found.elements()]) for found in (direct, mirrored)
        ]
        assert abs(means[0] - means[1]) < 0.8  # four standard deviations


@pytest.mark.parametrize("language", ["en", "fr"])
def test_captions_of_one_shape(language):
    for kind, (look, *texts) in WORDS.items():
        scenes = datasets.scenes(2003, language=language, seed=1, **KINDS[kind])
        pairs = zip(scenes.sizes, scenes.colors, scenes.shapes, strict=True)
        told = zip(pairs, scenes.layouts, scenes.texts, strict=True)
        texts_of = {(s[0], c[0], h[0], where): t for (s, c, h), where, t in told}
        assert texts_of[look] == texts[language == "fr"]


@pytest.mark.parametrize("kind", KINDS)
def test_french_agrees(kind):
    scenes = datasets.scenes(601, language="fr", **KINDS[kind])
    words = set()
    for n, text in enumerate(scenes.texts):
        assert scenes.true_captions(n)[0] == text
        for caption in scenes.true_captions(n):
            words |= {*caption.split()}
        looks = []
        for k, shape in enumerate(scenes.shapes[n]):
            gender = int(shape == "cross")
            size = FORMS.get(scenes.sizes[n][k])
            color = FORMS[scenes.colors[n][k]][gender]
            looks.append(
                [
                    *([size[gender]] if size else []),
                    *(NOUNS[shape], color),
                ]
            )
            article = ("un ", "une ")[gender] + " ".join(looks[k])
            assert f"d'{article}" in text if k else text.startswith(article)
        told = text.split()
        mentioned = [[], []]
        for word, k in scenes.mentions(n):
            mentioned[k].append(told[word])
        assert mentioned[: len(looks)] == looks
    assert len(words) <= 40 and not any(word == "de" for word in words)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scene_depends_on_the_seed_alone(kind):
    options = {**KINDS[kind], "noise": 0.05, "lighting": 0.3, "sound": True}
    few, many = (datasets.scenes(n, seed=5, **options) for n in (3, 1500))
    np.testing.assert_array_equal(few.images, many.images[:3])
    np.testing.assert_array_equal(few.boxes, many.boxes[:3])
    assert few.texts == many.texts[:3] == many[:3].texts
    for n in range(3):
        np.testing.assert_array_equal(few.audio[n], many.audio[n])
    english = datasets.scenes(3, seed=5, **options, language="fr")
    np.testing.assert_array_equal(english.images, few.images)
    assert english.colors == few.colors
    assert datasets.scenes(3, seed=6, **options).texts != few.texts


def test_noise_and_light():
    plain, noisy = (datasets.scenes(211, noise=s) for s in (0, 0.05))
    assert plain.texts == noisy.texts
    middle = (plain.images > 0) & (plain.images < 255)
    difference = noisy.images.astype(float) - plain.images
    assert abs(difference[plain.images == 204].std() - 0.05 * 255) < 0.5
    assert middle.any() and noisy.images.dtype == np.uint8
    lit = datasets.scenes(211, lighting=0.25)
    corners = lit.images[:, 0, 0].astype(int)
    center = np.array([s == "center" for s in lit.layouts])
    assert corners[center].min() >= 0 and corners[center].max() <= 64  # 255 / 4
    assert len(np.unique(corners[center, 0])) > 9
    brightest = lit.images.max(axis=(1, 2, 3))
    white = np.array([c == ("white",) for c in lit.colors])
    assert 191 <= brightest[white].min() < brightest[white].max() <= 255


@pytest.mark.parametrize("kind", KINDS)
def test_unseen_combinations_are_never_shown(kind):
    options = {**KINDS[kind], "held_out": 0.25}
    shown = datasets.scenes(4001, **options)
    hidden = datasets.scenes(4001, unseen=True, seed=1, **options)

    def combinations(scenes):
        captions = map(scenes.true_captions, range(len(scenes)))
        return {
            text.replace("small ", "").replace("large ", "")
            for texts in captions
            for text in texts
        }

    seen, new = combinations(shown), combinations(hidden)
    everything = {"places": 216, "motions": 120, "relations": 2208}[kind]
    assert not seen & new
    if kind != "relations":
        assert (len(seen), len(new)) == (everything * 3 // 4, everything // 4)
    assert len(new) <= everything // 4
    words = {word for text in seen for word in text.split()}
    assert {word for text in new for word in text.split()} <= words
    shares = collections.Counter(hidden.layouts)
    assert max(shares.values()) < 1.4 * min(shares.values())


def test_opposite_motions_lack_the_same_shapes():
    """Otherwise the look of a shape tells its motion, and the order of the halves."""
    films = datasets.scenes(3001, frames=4, held_out=0.25, unseen=True)
    looks = collections.defaultdict(set)
    for color, shape, motion in zip(
        films.colors, films.shapes, films.layouts, strict=True
    ):
        looks[motion].add((color, shape))
    assert looks["left"] == looks["right"] != looks["up"] == looks["down"]
    assert {len(found) for found in looks.values()} == {6}


def test_split_and_slices():
    scenes = datasets.scenes(11, objects=2, sound=True)
    training, test = scenes.split(0.3, seed=2)
    assert (len(training), len(test)) == (8, 3)
    assert sorted(training.texts + test.texts) == sorted(scenes.texts)
    for part in (training, test):
        for n, text in enumerate(part.texts):
            row = scenes.texts.index(text)
            np.testing.assert_array_equal(part.images[n], scenes.images[row])
            np.testing.assert_array_equal(part.audio[n], scenes.audio[row])
            assert part.true_captions(n) == scenes.true_captions(row)
    assert scenes[::5].texts == scenes.texts[::5]
    with pytest.raises(TypeError, match=r"scenes\.images\[n\]"):
        scenes[0]
    with pytest.raises(ValueError, match="must leave a scene in each part"):
        scenes[:1].split()


@pytest.mark.parametrize("size", [16, 17, 24, 37, 48])
def test_sizes(size):
    for options in KINDS.values():
        scenes = datasets.scenes(307, size=size, **options)
        assert scenes.boxes.min() >= 0 and scenes.boxes.max() <= size
        assert scenes.images.shape[-3:] == (size, size, 3)
    placed = datasets.scenes(307, size=size)
    width = placed.boxes[:, 0, 2] - placed.boxes[:, 0, 0]
    assert {*zip((s for (s,) in placed.sizes), width.tolist(), strict=True)} == {
        ("small", min(width)),
        ("large", max(width)),
    }
    assert min(width) < max(width)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "count must be at least 1"),
        ({"objects": 3}, "objects must be 1 or 2, received 3"),
        ({"objects": 2, "frames": 4}, "films have one shape"),
        ({"frames": 19}, "frames must leave a shape room .*received 19"),
        ({"size": 15}, "size must be at least 16"),
        ({"language": "de"}, '"de" is not one of "en", "fr"'),
        ({"noise": -1}, "noise must lie between 0 and 1"),
        ({"held_out": 1}, "held_out must leave combinations in both parts"),
        ({"held_out": 0.001}, "held_out must leave combinations in both parts"),
        ({"unseen": True}, "unseen=True needs held_out above 0"),
        ({"sound": True, "sampling_rate": 4000}, "at least 8,000 for tones"),
        ({"count": 10**12}, "fits into memory"),
    ],
)
def test_refused(options, words):
    with pytest.raises(ValueError, match=words):
        datasets.scenes(**{"count": 2, **options})
