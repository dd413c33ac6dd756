"""Eleven kinds of models that are saved on one backend and go on on another.

Run as a program with what to do and its own folder; see `test_travel`.
"""

import pathlib
import sys

import keras
import numpy as np

import kerasseq
from kerasseq import models
from kerasseq.layers import LuongAttention, MixtureOfExperts

LETTERS = kerasseq.text.CharacterTokenizer().fit("abc")
IDS = np.array([[1, 2, 3, 2, 1], [3, 1, 2, 2, 0]], "int32")
NEXT = np.array([[2, 3, 2, 1, 1], [1, 2, 2, 3, 1]], "int32")
CODES = np.array([[3, 0, 2, 1], [3, 1, 1, 0]], "int32")
NEXT_CODES = np.array([[0, 2, 1, 2], [1, 1, 0, 2]], "int32")
LABELS = np.array([0, 1], "int32")
SERIES = np.linspace(-1, 1, 10).reshape(2, 5, 1).astype("float32")
ON_TORCH = keras.backend.backend() == "torch"
EAGERLY = keras.backend.backend() == "tensorflow"  # where compiling takes longest
IMAGES = np.linspace(0, 1, 96).reshape(2, 4, 4, 3).astype("float32")


def classifier():
    return models.SequenceClassifier("lstm", labels=2, vocabulary_size=5, units=3)


def forecaster():
    return models.Forecaster("gru", units=3)


def language_model():
    return models.LanguageModel("min_gru", LETTERS, units=3)


def gpt():
    return models.GPT(
        LETTERS, num_layers=1, num_heads=1, hidden_dim=6, max_sequence_length=16
    )


def translator():
    model = models.Seq2Seq("gru", LETTERS, LETTERS, units=3, bidirectional=False)
    # On PyTorch True would be inductor; what is chosen elsewhere is no choice for it.
    optimizer = keras.optimizers.AdamW(1e-2, global_clipnorm=1.0)
    model.compile(optimizer, jit_compile=not ON_TORCH or "auto")
    return model


def previous():
    """A translator whose output reads the previous token."""
    return models.Seq2Seq("gru", LETTERS, LETTERS, units=3, output_reads="previous")


def captioner():
    """Hard attention to the one cell of a feature map, so that no sample differs."""
    layers = [keras.Input(IMAGES.shape[1:]), keras.layers.Conv2D(5, 4)]
    return models.Seq2Seq(
        keras.Sequential(layers, name="convolution"),
        target_tokenizer=LETTERS,
        decoder="gru",
        attention="hard",
        units=3,
    )


def experts():
    """A T5 whose networks are mixtures of experts, as in Switch Transformers."""
    layer = MixtureOfExperts(3, 7, top_k=1, feed_forward="relu", norm_topk_prob=False)
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 6, "dropout": 0.0}
    return models.T5(LETTERS, **sizes, feed_forward=layer)


def reinforced():
    """Hard attention to the one place that there is, so that no sample differs."""
    places = keras.Input((1, 5))
    look = LuongAttention("general", hard=True, gradient="reinforce")
    glimpse = keras.layers.Flatten()(look(places, places))
    model = models.ReinforcedModel(
        keras.Model(places, keras.layers.Dense(2, activation="softmax")(glimpse))
    )
    model.compile("rmsprop", "sparse_categorical_crossentropy")
    return model


def vit():
    return models.ViT(
        image_size=4, patch_size=2, num_layers=1, num_heads=1, hidden_dim=6,
        labels=2,
    )  # fmt: skip


def drawing():
    """A model that draws, which holds the tokenizer of its pictures."""
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 6}
    codebook = models.PictureTokenizer(4, 2, num_codes=3, hidden_dim=5, code_dim=2)
    model = models.Multimodal(LETTERS, head="draw", codebook=codebook, **sizes)
    model.compile(keras.optimizers.SGD(0.1))  # Adam would blow up rounding errors
    return model


def plain():
    """A model of Keras alone."""
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
    model.compile("rmsprop", keras.losses.SparseCategoricalCrossentropy(True))
    return model


# How to build each, what it is trained on, and what it generates.
KINDS = {
    "classifier": (classifier, (IDS, LABELS), None),
    "forecaster": (
        forecaster,
        (SERIES, SERIES[:, :1, 0]),
        lambda model: model.forecast(SERIES, 2),
    ),
    "language_model": (
        language_model,
        (IDS, NEXT),
        lambda model: model.generate("ab", 3, temperature=0),
    ),
    "gpt": (gpt, (IDS, NEXT), lambda model: model.generate("ab", 3, temperature=0)),
    "translator": (
        translator,
        ({"source": IDS, "target": IDS}, NEXT),
        lambda model: model.translate(["abc"], max_length=3)[0].text,
    ),
    "previous": (
        previous,
        ({"source": IDS, "target": IDS}, NEXT),
        lambda model: model.translate(["abc"], max_length=3)[0].text,
    ),
    "captioner": (
        captioner,
        ({"source": IMAGES, "target": IDS}, NEXT),
        lambda model: model.translate(IMAGES[:1], max_length=3)[0].text,
    ),
    "experts": (
        experts,
        ({"source": IDS, "target": IDS}, NEXT),
        lambda model: model.translate(["abc"], max_length=3)[0].text,
    ),
    "reinforced": (reinforced, (IDS[:, None].astype("float32"), LABELS), None),
    "vit": (vit, (IMAGES, LABELS), None),
    "drawing": (
        drawing,
        ({"ids": IDS, "codes": CODES}, NEXT_CODES),
        lambda model: model.draw("ab"),
    ),
    "plain": (plain, (IDS.astype("float32"), LABELS), None),
}


# Training of Keras and ours, each way of generating; the rest is built from these.
USUAL = ("gpt", "translator", "plain")


def write(folder, kinds):
    """Train a step, save, and note what comes out then and after one step more."""
    for name in kinds:
        make, (x, y), _ = KINDS[name]
        keras.utils.set_random_seed(3)
        model = make()
        model.run_eagerly = EAGERLY  # after compile: no file holds this
        fit(model, x, y)
        model.save(folder / f"{name}.keras")
        saved = as_array(model(x))
        fit(model, x, y)
        np.savez(folder / f"{name}.npz", saved=saved, on=as_array(model(x)))


def read(folders, everything):
    """Loads the files of each backend, and continues training.

    Compilation takes long: unless `everything` is set, each kind of model continues
    from one backend, alternating between the backends.
    """
    for n, name in enumerate(KINDS if everything else USUAL):
        _, (x, y), generate = KINDS[name]
        for m, folder in enumerate(folders):
            expected = np.load(folder / f"{name}.npz")
            model = kerasseq.load_model(folder / f"{name}.keras")
            assert int(model.optimizer.iterations) == 1
            if name not in (
                "plain",
                "reinforced",
            ):  # "auto" of Keras depends on the machine
                assert model.jit_compile is not ON_TORCH, (folder, name)
            close(model(x), expected["saved"])
            if not everything and (n + m) % len(folders):
                continue
            if generate:
                same(folder / f"{name}-generated.npy", generate(model))
            if everything:
                close(model.predict(x, verbose=0), expected["saved"])
            model.run_eagerly = EAGERLY and name != "classifier"
            fit(model, x, y)
            close(model(x), expected["on"])


def same(file, generated):
    """Generated is what the first backend generated that read the same file."""
    if not file.exists():
        np.save(file, generated)
    expected = np.load(file)
    if expected.dtype.kind == "U":
        assert generated == expected, file
    else:
        close(generated, expected)


def fit(model, x, y):
    model.fit(x, y, batch_size=len(y), epochs=1, verbose=0)


def close(actual, expected):
    np.testing.assert_allclose(as_array(actual), expected, rtol=1e-4, atol=1e-5)


def as_array(outputs):
    return keras.ops.convert_to_numpy(outputs)


if __name__ == "__main__":
    what, own = sys.argv[1:]
    kinds = KINDS if what == "everything" else USUAL
    for order in sys.stdin:
        turn, *folders = order.rstrip("\n").split("\t")
        if turn == "write":
            write(pathlib.Path(own), kinds)
        else:
            read([pathlib.Path(f) for f in folders], what == "everything")
        print(turn, flush=True)
