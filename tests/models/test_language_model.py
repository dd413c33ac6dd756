"""The language model: what it reads, writes, counts, and refuses."""

import pathlib

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.decoding import Beam, RandomSampler
from kerasseq.layers import GRU, LSTM, StackedRNN
from kerasseq.models import LanguageModel
from kerasseq.models.causal_lm import scoring_rows
from kerasseq.tasks.architectures import ARCHITECTURES
from kerasseq.tasks.transformer_stack import NEVER_CAUSAL
from kerasseq.text import CharacterTokenizer, NGramModel

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

V, H = 11, 5
TEXT = "the cat sat on the mat, and the rat sat on the hat.\n"
CAUSAL = [name for name in ARCHITECTURES if name not in NEVER_CAUSAL]
rng = np.random.default_rng(0)
tokenizer = CharacterTokenizer().fit(TEXT)
ids = rng.integers(0, V, 7).astype("int32")


def array(value):
    return keras.ops.convert_to_numpy(value)


def small(architecture="gru", **options):
    return LanguageModel(architecture, vocabulary_size=V, **{"units": H, **options})


def eager(model):
    """Compiled for short fits that need no speed, with a rate that changes weights."""
    model.compile(
        keras.optimizers.SGD(0.1), run_eagerly=keras.backend.backend() != "jax"
    )
    return model


@pytest.mark.everywhere("weights meet the losses of each backend")
@pytest.mark.parametrize("options", [{}, {"loss_chunk_size": 5}])
def test_the_weight_of_a_row_is_that_of_its_positions(options):
    x = rng.integers(0, V, (3, 7)).astype("int32")
    y, w = np.roll(x, -1, axis=1), np.array([0.5, 0.0, 2.0], "float32")
    model = small(units=2)
    eagerly = keras.backend.backend() != "jax"
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=eagerly, **options)
    logits, found = model.predict(x, verbose=0), []
    for weights in (w, w[:, None]):
        history = model.fit(x, y, sample_weight=weights, batch_size=3, verbose=0)
        scores = model.evaluate(x, y, sample_weight=weights, batch_size=2, verbose=0)
        found += [history.history["loss"][0], scores[0], scores[1] * np.log(2)]
    logits = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    losses = -np.take_along_axis(logits, y[..., None], axis=-1)[..., 0]
    wanted = (losses * w[:, None]).sum() / (7 * w.sum())
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = LanguageModel("peephole_lstm", tokenizer, units=24)
    history = model.fit(
        TEXT * 30,
        validation_data=TEXT * 4,
        sequence_length=26,
        batch_size=8,
        epochs=20,
        verbose=0,
    )
    return model, history.history


@pytest.mark.everywhere("trained, saved, loaded, generated")
def test_it_learns_a_text_better_than_bigrams(trained):
    model, history = trained
    bigrams = NGramModel(2).fit(tokenizer.encode(TEXT * 30), tokenizer.vocabulary_size)
    assert model.bits_per_token(TEXT * 4) < bigrams.bits_per_token(
        tokenizer.encode(TEXT * 4)
    )
    assert history["val_bits"][-1] < history["val_bits"][0]
    assert history["bits"][-1] == pytest.approx(
        history["loss"][-1] / np.log(2), rel=1e-4
    )


@pytest.mark.parametrize("name", CAUSAL)
def test_every_name_carries_its_state(name):
    model = small(name, units=6)
    written = model.generate(ids[:3], 5, temperature=0)
    assert written[:3].tolist() == ids[:3].tolist()
    other = written.copy()
    other[-1] = (other[-1] + 1) % V
    logits, changed = array(model(np.stack([written, other])))
    for end in range(3, 8):  # carried on = read from the start
        assert logits[end - 1].max() - logits[end - 1, written[end]] < 1e-5
    np.testing.assert_allclose(logits[:-1], changed[:-1], atol=2e-6)  # no future seen
    assert np.abs(logits[-1] - changed[-1]).max() > 1e-5


LAYERS = {
    "ours": lambda: LSTM(H, return_sequences=True, return_state=True),
    "of Keras": lambda: keras.layers.GRU(H, return_sequences=True),
    "stacked": lambda: StackedRNN([kerasseq.layers.GRUCell(H)], return_sequences=True),
    "convolution": lambda: keras.layers.Conv1D(H, 3, padding="causal"),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_any_layer_that_sees_no_future(kind, tmp_path):
    model = small(LAYERS[kind]())
    model.compile(jit_compile=False, run_eagerly=True)
    written = model.generate(ids, 2, temperature=0)
    for end in range(len(ids), len(written)):
        logits = array(model(written[None, :end]))[0, -1]
        assert logits.max() - logits[written[end]] < 1e-5
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(ids[None])), array(model(ids[None])))


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Bidirectional(GRU(H, return_sequences=True)),
        keras.layers.Bidirectional(keras.layers.LSTM(H, return_sequences=True)),
        keras.layers.Conv1D(H, 3, padding="same"),
        StackedRNN(
            [kerasseq.layers.GRUCell(H)], bidirectional=True, return_sequences=True
        ),
        GRU(H, return_sequences=True, go_backwards=True),
    ],
)
def test_a_layer_that_sees_the_future_is_refused(layer):
    with pytest.raises(ValueError, match="sees the future"):
        small(layer)


def test_carried_on_gives_what_reading_each_prefix_anew_gives():
    model = small("peephole_lstm", num_layers=2)
    written = model.generate(ids[:2], 4, temperature=0)
    for end in range(2, 6):
        logits = array(model(written[None, :end]))[0, -1]
        assert logits.max() - logits[written[end]] < 1e-6


@pytest.mark.everywhere("the compiled loop", cases=1)
@pytest.mark.parametrize("kind", ["peephole_lstm", "convolution"])
def test_a_batch_equals_single_prompts(kind):
    model = small(LAYERS.get(kind, lambda: kind)())
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    prompts = [ids, ids[:1], ids[3:5]]
    options = {"temperature": 0, "stop": [3]}
    wanted = [model.generate(prompt, 9, **options).tolist() for prompt in prompts]
    found = model.generate(prompts, 9, **options)
    assert [row.tolist() for row in found] == wanted
    for row, prompt in zip(wanted, prompts, strict=True):
        assert 3 not in row[len(prompt) : -1]
    streamed = model.stream(prompts[1], 9, **options)
    assert [*prompts[1].tolist(), *streamed] == wanted[1]


def test_a_prompt_is_read_once_and_a_token_costs_one_step():
    model, shapes = small(), []
    layer = model.get_layer("gru")
    advance = layer.advance

    def counting(x, states=None, mask=None):
        shapes.append(tuple(x.shape))
        return advance(x, states, mask)

    layer.advance = counting
    model.generate(ids, 9)
    prompts = [shape for shape in shapes if shape[1] >= len(ids) - 1]
    # JAX traces a function twice.
    assert len(prompts) == (2 if keras.backend.backend() == "jax" else 1)
    assert {shape[:2] for shape in shapes[len(prompts) :]} == {(1, 1)}


def test_samplers(trained):
    model, _ = trained
    greedy = model.generate("the c", 20, temperature=0)
    assert model.generate("the c", 20, sampler="greedy") == greedy
    assert model.generate("the c", 20, sampler=Beam(1)) == greedy
    options = {"temperature": 1.5, "top_k": 9, "top_p": 0.95, "min_p": 0.01}
    combined = RandomSampler(**options)
    drawn = model.generate("the c", 20, **options, seed=1)
    assert drawn == model.generate("the c", 20, sampler=combined, seed=1) != greedy


@pytest.mark.everywhere("trained, saved, loaded, generated")
def test_what_is_trained_after_writing_is_written_with():
    model = small("lstm")
    model.generate(ids, 2)
    model.set_weights([3 * w for w in model.get_weights()])
    written = model.generate(ids, 3, temperature=0)
    for end in range(len(ids), len(written)):
        logits = array(model(written[None, :end]))[0, -1]
        assert logits.max() - logits[written[end]] < 1e-5


def test_a_seed_repeats_the_text(trained):
    model, _ = trained
    first = model.generate("the ", 40, seed=3, temperature=1.5)
    assert model.generate("the ", 40, seed=3, temperature=1.5) == first
    assert model.generate("the ", 40, seed=4, temperature=1.5) != first
    assert first.startswith("the ")
    assert len(first) == 44


def test_greedy_in_three_ways(trained):
    model, _ = trained
    best = model.generate("the c", 20, temperature=0)
    assert model.generate("the c", 20, top_k=1, seed=1) == best
    assert model.generate("the c", 20, top_p=1e-9, seed=2) == best
    assert model.generate("the c", 20, temperature=1e-6, seed=3) == best


def test_prompts(trained):
    model, _ = trained
    assert model.generate("thé", 3, seed=0).startswith("th\ufffd")
    strict = LanguageModel("gru", CharacterTokenizer(unknown=None).fit("abc"), units=3)
    with pytest.raises(ValueError, match="'z' at position 1 was not in"):
        strict.generate("az", 3)
    with pytest.raises(ValueError, match="the text is empty"):
        model.generate("", 3)
    with pytest.raises(ValueError, match="no tokenizer to read text with"):
        small().generate("ab", 3)
    with pytest.raises(ValueError, match="at least one token"):
        small().generate(np.array([], "int32"), 3)
    with pytest.raises(ValueError, match="holds 11 at position 1, outside the vocab"):
        small().generate([3, V], 3)
    for options, message in [
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"max_new_tokens": 10**12}, "max_new_tokens must be a size that fits into"),
        ({"temperature": -1}, "temperature must be above 0"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0}, "top_p must be above 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.generate("the", **{"max_new_tokens": 3, **options})


def test_a_text_may_come_in_any_form(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    encoded = tokenizer.encode(TEXT)
    model = eager(LanguageModel("elman", tokenizer, units=3))
    with file.open(encoding="utf-8") as opened:
        for source in (TEXT, pathlib.Path(file), opened, encoded, encoded.tolist()):
            np.testing.assert_array_equal(model.ids(source), encoded)
    assert model.bits_per_token(file) == model.bits_per_token(TEXT)
    other = LanguageModel.from_config(model.get_config())
    other.set_weights(model.get_weights())
    options = {"sequence_length": 8, "batch_size": 3, "verbose": 0}
    start = model.get_weights()
    model.fit(file, **options)
    eager(other).fit(encoded, **options)
    assert np.abs(model.get_weights()[0] - start[0]).max() > 1e-6
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_rows_with_targets_go_to_keras_as_they_are():
    model = eager(small())
    rows = rng.integers(0, V, (4, 7))
    history = model.fit(
        rows[:, :-1],
        rows[:, 1:],
        validation_data=(rows[:, :-1], rows[:, 1:]),
        verbose=0,
    )
    assert set(history.history) == {"loss", "bits", "val_loss", "val_bits"}


def test_the_validation_text_is_read_once_through():
    model = eager(small())
    text = rng.integers(0, V, 60)
    history = model.fit(
        text, validation_data=text[:23], sequence_length=7, batch_size=2, verbose=0
    )
    x = np.stack([text[0:7], text[7:14], text[14:21]])
    y = np.stack([text[1:8], text[8:15], text[15:22]])
    assert history.history["val_loss"][0] == pytest.approx(
        model.evaluate(x, y, verbose=0)[0], rel=1e-4
    )


def test_epochs_and_steps_go_on_where_they_were():
    text = rng.integers(0, V, 200)
    whole, parts = eager(small("elman")), eager(small("elman"))
    parts.set_weights(whole.get_weights())
    options = {
        "sequence_length": 7,
        "batch_size": 3,
        "steps_per_epoch": 4,
        "verbose": 0,
    }
    whole.fit(text, epochs=3, **options)
    parts.fit(text, epochs=1, **options)
    parts.fit(text, epochs=3, initial_epoch=1, **options)
    for one, other in zip(whole.get_weights(), parts.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_wrong_texts():
    model = LanguageModel("gru", tokenizer, units=3)
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        model.fit(pathlib.Path("nothing.txt"))
    with pytest.raises(ValueError, match="the text is empty"):
        model.fit("")
    with pytest.raises(ValueError, match="too few for one sequence"):
        model.fit("too short")
    with pytest.raises(TypeError, match="whole numbers, received .* of float64"):
        model.fit(np.ones(100))
    with pytest.raises(ValueError, match="holds -1 at position 0, outside the vocab"):
        model.fit(np.arange(100) - 1)
    with pytest.raises(ValueError, match="at least two tokens.*received 1"):
        model.cross_entropy("t")


def test_cross_entropy_is_the_mean_of_minus_log_p(trained):
    model, _ = trained
    encoded = tokenizer.encode(TEXT)
    logits = array(model(encoded[None, :-1]))[0].astype("float64")
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = -log_p[np.arange(len(TEXT) - 1), encoded[1:]].mean()
    found = model.cross_entropy(TEXT, sequence_length=80)
    assert found == pytest.approx(expected, rel=1e-5)
    assert model.bits_per_token(TEXT, sequence_length=80) == found / np.log(2)
    # In many rows, each but the first after a quarter of what stands before it.
    assert model.cross_entropy(TEXT, sequence_length=20) == pytest.approx(
        found, rel=0.5
    )


@pytest.mark.parametrize("size", [2, 3, 7, 8, 9, 40, 41])
@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_each_token_but_the_first_is_scored_once(size, length):
    text = rng.integers(0, V, size)
    scored = []
    for x, y, counted in scoring_rows(text, length, batch_size=2):
        for row in range(2):
            scored += y[row][counted[row]].tolist()
            real = np.flatnonzero(counted[row])
            if len(real):  # what stands before is what the text has there
                known = slice(1, real[-1] + 1)
                np.testing.assert_array_equal(x[row][known], y[row][: real[-1]])
    assert scored == text[1:].tolist()
    # As many as the n-gram model scores after a first token.
    assert len(scored) == len(NGramModel(2).fit(text, V).log_probabilities(text)) - 1


@pytest.mark.everywhere("trained, saved, loaded, generated")
def test_a_loaded_model_writes_the_same(trained, tmp_path):
    model, _ = trained
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.tokenizer == tokenizer
    assert loaded.generate("the ", 20, seed=0) == model.generate("the ", 20, seed=0)
    pairs = zip(loaded.optimizer.variables, model.optimizer.variables, strict=True)
    for restored, original in pairs:
        np.testing.assert_array_equal(array(restored), array(original))
    assert float(loaded.optimizer.learning_rate) == pytest.approx(3e-3)
    assert [m.name for m in loaded.metrics] == [m.name for m in model.metrics]


def test_what_is_inside_can_be_traced_and_sliced(trained):
    model, _ = trained
    encoded = tokenizer.encode(TEXT)[None]
    with kerasseq.tracing.trace(model) as inside:
        model(encoded)
    vectors = keras.Model(model.input, model.get_layer("peephole_lstm").output)
    h = array(vectors(encoded))
    np.testing.assert_allclose(inside["peephole_lstm/hidden_state"], h, atol=1e-6)
    flow = kerasseq.tracing.gradient_flow(model, encoded[:, :-1], encoded[:, 1:])
    assert flow["peephole_lstm/cell_state"].shape == (len(TEXT) - 1,)


@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_an_output_that_also_reads_the_token(kind, tmp_path):
    keras.utils.set_random_seed(0)
    tokenizer = CharacterTokenizer().fit("abcde")
    sizes = {"units": 6, "embedding_dim": 4} if kind == "gru" else {"units": 8}
    model = LanguageModel(kind, tokenizer, skip=True, **sizes)
    ids = np.array([[0, 3, 1, 4, 2]])
    h = array(model._last_outputs(ids))
    x = model.get_layer("embedding").get_weights()[0][ids]
    W, b = model.get_layer("logits").get_weights()
    W_hp, W_xp = W[: h.shape[-1]], W[h.shape[-1] :]
    expected = h @ W_hp + x @ W_xp + b
    np.testing.assert_allclose(array(model(ids)), expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    text = "ab"
    for _ in range(7):  # each prefix anew
        logits = array(loaded(loaded.encode(text)))[0, -1]
        text += tokenizer.decode([int(logits.argmax())])
    assert model.generate("ab", 7, sampler="greedy") == text


@pytest.mark.everywhere("trained, saved, loaded, generated")
def test_mixed_precision():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = eager(small("peephole_lstm"))
        model.fit(
            rng.integers(0, V, 60), sequence_length=7, steps_per_epoch=1, verbose=0
        )
        written = model.generate(ids, 2, temperature=0)
    finally:
        keras.config.set_dtype_policy(before)
    logits = array(model(written[None, :-1]))[0, -1]
    assert logits.max() - logits[written[-1]] < 0.01
    assert np.isfinite(model.cross_entropy(ids))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "give a fitted tokenizer for text, or vocabulary_size"),
        ({"tokenizer": tokenizer, "vocabulary_size": 3}, ValueError, "give a fitted"),
        ({"vocabulary_size": 0}, ValueError, "vocabulary_size must be at least 1"),
        ({"vocabulary_size": V, "units": 0}, ValueError, "units must be at least 1"),
        (
            {"vocabulary_size": V, "architecture": "gur"},
            ValueError,
            'Did you mean "gru"',
        ),
        (
            {"vocabulary_size": V, "architecture": GRU(3)},
            ValueError,
            "build it with return_sequences",
        ),
    ],
)
def test_messages(arguments, error, message):
    with pytest.raises(error, match=message):
        LanguageModel(**{"architecture": "gru", **arguments})
