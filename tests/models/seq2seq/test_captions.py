"""Captions of pictures: soft and hard attention over the feature map of an encoder."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import kernels
from kerasseq.models import Seq2Seq
from kerasseq.models.seq2seq.hard_attention import doubly_stochastic_loss
from kerasseq.text import WordTokenizer
from kerasseq.tracing import plots
from kerasseq.training import Reinforcement
from tests.models.seq2seq import references, toys

pytestmark = pytest.mark.once("the loops of a decoder are tested on each backend")

ROWS, COLUMNS = 2, 3
WORDS = WordTokenizer().fit(["red blue cross dot"])
rng = np.random.default_rng(0)
PICTURES = rng.integers(0, 255, (5, 4, 6, 3)).astype("uint8")
CAPTIONS = ["red cross", "blue dot", "red dot", "red", "blue cross dot"]
SHORT = np.array([[1, 3, 5, 2, 0, 0], [1, 4, 6, 5, 3, 2]])  # the first one is padded


def encoder():
    layers = [
        keras.Input((2 * ROWS, 2 * COLUMNS, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(7, 2, strides=2, activation="tanh"),
    ]
    return keras.Sequential(layers, name="convolution")


def captioner(attention="soft", scale=0.5, **options):
    options = {"decoder": "gru", "units": 5, **options}
    with toys.zero_initializers():
        made = Seq2Seq(
            encoder(), target_tokenizer=WORDS, attention=attention, **options
        )
    return toys.randomize(made, scale)


def soft_twin(model):
    """The same model with soft attention."""
    made = toys.same_weights(captioner(), model)
    pairs = [x.decoder.attention.trainable_variables for x in (made, model)]
    for ours, theirs in zip(*pairs, strict=True):
        ours.assign(numpy(theirs))
    return made


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture(scope="module")
def soft():
    return captioner()


@pytest.fixture(scope="module")
def hard():
    return captioner("hard")


def expected_maps(model):
    source, target = model.encode(PICTURES, CAPTIONS)
    state = toys.arrays(model.initial_state(source, 5))["source"]
    real = np.ones((len(PICTURES), ROWS * COLUMNS), bool)
    _, alpha = references.run(
        model.decoder, target, state["memory"], state["summary"], real
    )
    return alpha


def test_maps_over_the_picture_are_those_of_the_equations(soft):
    maps = soft.attention_maps(PICTURES, CAPTIONS, batch_size=2)
    for alpha, caption, found in zip(expected_maps(soft), CAPTIONS, maps, strict=True):
        length = len(caption.split()) + 1  # and the end
        assert found.shape == (length, ROWS, COLUMNS)
        np.testing.assert_allclose(found.reshape(length, -1), alpha[:length], atol=1e-5)
    one = soft.attention_maps(PICTURES[3], CAPTIONS[3])  # a row alone
    np.testing.assert_allclose(one[0], maps[3], atol=1e-6)
    translation = soft.translate(PICTURES[0], max_length=3)
    assert translation.maps.shape == (len(translation.target_tokens), ROWS, COLUMNS)
    assert soft.translate(list(PICTURES), max_length=3)[0].text == translation.text
    weights = translation.maps.reshape(translation.alignment.shape)
    np.testing.assert_array_equal(weights, translation.alignment)


def test_hard_attention_reads_the_cell_with_the_highest_score(hard):
    """The equation with one position, NumPy: the state follows the chosen cell."""
    maps = hard.attention_maps(PICTURES, CAPTIONS)
    assert all(set(np.unique(each)) == {0.0, 1.0} for each in maps)
    assert all((each.sum((1, 2)) == 1).all() for each in maps)
    soft = soft_twin(hard)
    first = soft.attention_maps(PICTURES, CAPTIONS)  # the first word reads s_0
    for ours, theirs in zip(maps, first, strict=True):
        assert ours[0].argmax() == theirs[0].argmax()
    source, target = hard.encode(PICTURES, CAPTIONS)
    step = numpy(hard.step(hard.initial_state(source, 3), target[:, 0])[0])
    whole = numpy(hard([source, target], training=False))[:, 0]
    np.testing.assert_allclose(step[:, 2:], whole[:, 2:], atol=1e-5)  # cached


def gradient_of_scores(model, source, target, labels):
    """The gradient of the loss of `fit` with respect to the scores' vector v."""
    variables = model.trainable_variables  # those of the attention
    before = [numpy(variable).copy() for variable in variables]
    model.train_on_batch((source, target), labels)
    change = numpy(variables[-1])
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
    return before[-1] - change


def frozen(model):
    """A model of which each step of gradient descent changes the scores alone."""
    for layer in model.layers:
        layer.trainable = layer is model.decoder
    for name in ("embedding", "first_states", "combine", "logits"):
        getattr(model.decoder, name).trainable = False
    for layer in model.decoder.recurrent_layers:
        layer.trainable = False
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    return model


def expected_loss(model, source, target, labels):
    """The loss by enumeration of all cells of all steps, as a function of v."""
    decoder = model.decoder
    state = model.initial_state(source, 3)
    steps = target.shape[1]

    def compute(v):
        total = 0.0
        memory = state["source"]["memory"]
        keys = state["source"]["keys"]
        cells = range(memory.shape[1])
        for path in itertools.product(cells, repeat=steps):
            p, loss, states = 1.0, 0.0, state["cell_states"]
            for t, cell in enumerate(path):
                query = ops.matmul(states[-1][0], decoder.attention.W_q)
                e = ops.matmul(ops.tanh(query[:, None] + keys), v)[..., 0]
                p = p * ops.softmax(e)[0, cell]
                y = decoder.embedding(ops.convert_to_tensor(target[:, t]))
                x = ops.concatenate([y, memory[:, cell]], axis=-1)
                rnn = decoder.recurrent_layers[0].cell
                s, new = rnn.call(x, states[-1])
                o = decoder.combine(ops.concatenate([s, memory[:, cell]], -1))
                log_p = ops.log_softmax(decoder.logits(o))
                loss, states = loss - log_p[0, int(labels[0, t])], [new]
            total = total + p * loss / steps
        return total

    return compute


def test_the_mean_gradient_of_hard_attention_is_the_exact_one():
    """REINFORCE is unbiased: all 6 * 6 ways of reading, against samples."""
    exactly = Reinforcement(entropy=0.0, soft_share=0.0, baseline_decay=1.0)
    model = frozen(captioner("hard", reinforcement=exactly, scale=0.9))
    model.decoder.reinforced_choices.baseline.assign(-4.0)  # any is right
    source, target = model.encode(PICTURES[:1], ["red"])
    labels = np.array([[3, 2]])
    loss = expected_loss(model, source, target, labels)
    v = numpy(model.decoder.attention.v)
    wanted = kernels.gradients(lambda x: loss(x[0]), [ops.convert_to_tensor(v)])[0]
    wanted = numpy(wanted)
    many = [np.repeat(x, 2048, axis=0) for x in (source, target, labels)]
    found = np.stack([gradient_of_scores(model, *many) for _ in range(20)])
    error = found.std(0, ddof=1) / len(found) ** 0.5
    assert np.abs(wanted).max() > 10 * error.max()
    assert (np.abs(found.mean(0) - wanted) < 4 * error + 1e-5).all()


def test_padded_words_change_no_gradient():
    exactly = Reinforcement(soft_share=0.0)
    model = frozen(captioner("hard", reinforcement=exactly))
    model.decoder.attention.gumbel_noise = lambda shape: ops.zeros(shape)
    source, target = model.encode(PICTURES[:2], ["red cross", "blue dot red"])
    labels = np.array([[3, 5, 2, 0], [4, 6, 3, 2]])
    changes = []
    for padding in (0, 2):
        wide = ((0, 0), (0, padding))
        model.decoder.reinforced_choices.baseline.assign(-2.0)
        padded = np.pad(target, wide), np.pad(labels, wide)
        changes.append(gradient_of_scores(model, source, *padded))
    np.testing.assert_allclose(changes[0], changes[1], atol=1e-6)
    assert np.abs(changes[0]).max() > 1e-4


def test_rows_that_are_soft_have_the_gradient_of_soft_attention():
    always = Reinforcement(entropy=0.0, soft_share=1.0)
    hard = frozen(captioner("hard", reinforcement=always))
    soft = frozen(soft_twin(hard))
    labels = np.array([[3, 5, 2]])
    arrays = [*hard.encode(PICTURES[:1], ["red cross"]), labels]
    wanted = gradient_of_scores(soft, *arrays)
    np.testing.assert_allclose(gradient_of_scores(hard, *arrays), wanted, atol=1e-6)
    assert np.abs(wanted).max() > 1e-4


def test_entropy_keeps_weights_even():
    """With a large factor the gradient is that of the entropy of the weights."""
    options = {"soft_share": 1.0, "weight": 1e-9}
    found = []
    for entropy in (0.0, 3.0):
        options["entropy"] = entropy
        model = frozen(captioner("hard", reinforcement=Reinforcement(**options)))
        arrays = [*model.encode(PICTURES[:1], ["red"]), np.array([[3, 2]])]
        found.append(gradient_of_scores(model, *arrays))
    alpha = model.decoder.attention
    change = found[1] - found[0]
    before = entropy_of(model)
    alpha.v.assign(numpy(alpha.v) - 0.05 * change)
    assert entropy_of(model) > before


def entropy_of(model):
    weights = np.concatenate(soft_twin(model).attention_maps(PICTURES[:1], ["red"]))
    return -(weights * np.log(weights)).sum()


def test_doubly_stochastic_loss_is_that_of_numpy_in_training_alone():
    alpha = np.random.default_rng(1).random((2, 6, 7))
    real = (SHORT != 0)[..., None]
    wanted = np.square(1 - (alpha * real).sum(1)).sum(-1).mean()
    found = doubly_stochastic_loss(ops.convert_to_tensor(alpha), SHORT)
    assert float(numpy(found)) == pytest.approx(wanted, rel=1e-5)
    model = captioner(doubly_stochastic=0.3)
    plain = toys.same_weights(captioner(), model)
    arrays = [*model.encode(PICTURES[:2], CAPTIONS[:2])]
    labels = np.array([[3, 5, 2], [4, 6, 2]])
    for made in (model, plain):
        made.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    maps = np.stack(plain.attention_maps(PICTURES[:2], CAPTIONS[:2]))
    term = 0.3 * np.square(1 - maps.sum(1)).sum((1, 2)).mean()
    losses = [made.train_on_batch(arrays, labels)[0] for made in (model, plain)]
    assert float(losses[0]) == pytest.approx(float(losses[1]) + term, rel=1e-4)
    losses = [made.evaluate(arrays, labels, verbose=0)[0] for made in (model, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.everywhere("trained, saved and loaded")
def test_hard_attention_learns_and_travels(tmp_path):
    model = captioner("hard", units=11, reinforcement=Reinforcement(entropy=0.01))
    on_jax = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.Adam(0.03), jit_compile=on_jax)
    losses = model.fit(PICTURES, CAPTIONS, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.5
    assert float(numpy(model.decoder.reinforced_choices.baseline)) < 0
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    arrays = [*model.encode(PICTURES, CAPTIONS)]
    logits = [numpy(made(arrays, training=False)) for made in (model, loaded)]
    np.testing.assert_allclose(*logits, atol=1e-5)
    assert loaded.decoder.reinforced_choices.reinforcement.entropy == 0.01
    baseline = loaded.decoder.reinforced_choices.baseline
    assert float(numpy(baseline)) == pytest.approx(
        float(numpy(model.decoder.reinforced_choices.baseline))
    )
    assert np.isfinite(loaded.fit(PICTURES, CAPTIONS, verbose=0).history["loss"][0])


@pytest.mark.parametrize("attention", ["luong", "sampled", "reinforced after the step"])
def test_other_hard_attention_trains(attention):
    layers = kerasseq.layers
    made = {
        "luong": "luong",
        "sampled": layers.BahdanauAttention(5, hard=True, sampled=True, seed=1),
        "reinforced after the step": layers.LuongAttention(
            "general", hard=True, gradient="reinforce", seed=1
        ),
    }[attention]
    model = frozen(captioner(made))
    weight = model.decoder.attention.trainable_variables[0]
    before = numpy(weight).copy()
    arrays = [*model.encode(PICTURES[:2], CAPTIONS[:2])]
    model.train_on_batch(arrays, np.array([[3, 5, 2], [4, 6, 2]]))
    assert np.abs(numpy(weight) - before).max() > 1e-5


def test_files_are_read_in_the_size_of_the_encoder(soft, tmp_path):
    from PIL import Image

    files = []
    for n, picture in enumerate(PICTURES):
        files.append(f"{tmp_path}/{n}.png")
        Image.fromarray(picture.repeat(2, 0).repeat(2, 1)).save(files[-1])
    assert soft.encode_sources(files).shape == PICTURES.shape
    texts = soft.generate(files, max_length=3)
    assert isinstance(soft.generate(files[0], max_length=3), str)
    assert texts == soft.generate([Image.open(file) for file in files], max_length=3)
    model = captioner()
    model.compile(run_eagerly=True)
    model.fit(files, CAPTIONS, verbose=0)


def test_wrong_pictures_and_options(soft):
    size = r"sources\[1\] must be a picture .* \(4, 6, 3\), received shape"
    small, rgba = np.zeros((4, 5, 3)), np.zeros((4, 6, 4))
    with pytest.raises(ValueError, match=size + r" \(4, 5, 3\). Resize it"):
        soft.translate([PICTURES[0], small])
    with pytest.raises(ValueError, match=size + r" \(4, 6, 4\). Convert its colors"):
        soft.fit([PICTURES[0], rgba], CAPTIONS[:2])
    with pytest.raises(ValueError, match="target 1 must have at least one token"):
        soft.fit(PICTURES[:2], ["red", ""])
    with pytest.raises(
        ValueError, match="expected 1 targets, one a source, received 2"
    ):
        soft.attention_maps(PICTURES[:1], CAPTIONS[:2])
    with pytest.raises(FileNotFoundError, match=r"none\.png"):
        soft.translate(["none.png"])
    with pytest.raises(ValueError, match="attention_maps needs a model with attention"):
        captioner(None).attention_maps(PICTURES, CAPTIONS)
    with pytest.raises(ValueError, match="an encoder model that returns a feature map"):
        toys.model().attention_maps(["ab"], ["ab"])
    with pytest.raises(ValueError, match='reinforcement needs attention="hard"'):
        captioner(reinforcement=Reinforcement())
    with pytest.raises(ValueError, match="doubly_stochastic needs soft attention"):
        captioner("hard", doubly_stochastic=0.1)
    with pytest.raises(TypeError, match="must be a kerasseq.training.Reinforcement"):
        captioner("hard", reinforcement=3)
    for options in ({"weight": 0}, {"entropy": -1}, {"soft_share": 2}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Reinforcement(**options)


def test_plot_of_a_caption(soft):
    words = ["red", "cross", "<end>"]
    maps = soft.attention_maps(PICTURES, CAPTIONS)[0]
    figure = plots.plot_caption(PICTURES[0], maps, words, "picture")
    assert [axis.get_title() for axis in figure.axes] == ["", *words]
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), PICTURES[0])
    shown = figure.axes[1].images[0].get_array()
    row, column = np.unravel_index(maps[0].argmax(), maps[0].shape)
    box = np.s_[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
    bright = 0.15 * PICTURES[0][box] + 0.85 * (PICTURES[0][box] / 2 + 127.5)
    np.testing.assert_allclose(shown[box], bright, atol=1)
    with pytest.raises(ValueError, match="one for each word, .* and 2 words"):
        plots.plot_caption(PICTURES[0], maps, words[:2])
    with pytest.raises(
        ValueError, match=r"1 or 3 channels, received shape \(4, 6, 2\)"
    ):
        plots.plot_caption(PICTURES[0, ..., :2], maps, words)
