"""The decoder: its equations in NumPy, and the ways to run it, which all agree."""

import functools

import keras
import numpy as np
import pytest

from kerasseq import kernels
from kerasseq.core.through import Through
from kerasseq.layers import GRU, LSTM, BahdanauAttention, ElmanRNN, LuongAttention
from kerasseq.seq2seq import cells, teaching
from kerasseq.seq2seq.decoder import RecurrentDecoder
from kerasseq.training import ScheduledSampling
from tests.layer_checks import check_config_names_every_argument
from tests.seq2seq import references, toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, M, S, T, N, V, H, E = 2, 3, 5, 7, 11, 13, 17, 19
rng = np.random.default_rng(0)
target = rng.integers(0, V, (B, T)).astype("int32")
memory = rng.normal(size=(B, S, M)).astype("float32")
summary = rng.normal(size=(B, N)).astype("float32")
real = np.array([[True] * S, [False, True, True, False, False]])

# Attention, input feeding, and layers from the bottom up.
CONFIGS = {
    "none": (None, False, "LSTM"),
    "none, fed": (None, True, "GRU LSTM"),
    "bahdanau": ("bahdanau", False, "LSTM GRU"),
    "bahdanau, fed": ("bahdanau", True, "LSTM"),
    "luong": ("luong", False, "GRU LSTM"),
    "luong, fed": ("luong", True, "GRU"),
}
ATTENTIONS = {
    None: lambda: None,
    "bahdanau": lambda: BahdanauAttention(23),
    "luong": lambda: LuongAttention("general"),
}
CELLS = {"GRU": GRU, "LSTM": LSTM, "ElmanRNN": ElmanRNN}


def decoder(attention, input_feeding=False, layers="GRU", **options):
    """Two layers have different widths."""
    names = layers.split()
    layer = RecurrentDecoder(
        [
            CELLS[name](H if n == len(names) - 1 else 29, return_sequences=True)
            for n, name in enumerate(names)
        ],
        V,
        embedding_dim=E,
        attention=ATTENTIONS[attention](),
        input_feeding=input_feeding,
        **options,
    )
    return built(layer)


def built(layer, scale=0.5):
    with toys.undrawn():
        layer.build(target.shape, memory.shape, summary.shape)
    return toys.randomize(layer, scale)


@functools.cache
def made(name):
    return decoder(*CONFIGS[name])


def caller(layer, training=False):
    """Logits and alignment of all steps, as a compiled function."""
    aligned = layer.attention is not None

    def call(*args):
        options = {"return_attention_scores": aligned, "training": training}
        found = layer(*args, **options)
        return found if aligned else (found, 0 * found)

    return functools.partial(toys.run, kernels.compiled(call))


@functools.cache
def called(name):
    call = caller(made(name))
    return call, *call(target, memory, summary, real)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_equation(name):
    _, logits, alpha = called(name)
    wanted, aligned = references.run(made(name), target, memory, summary, real)
    np.testing.assert_allclose(logits, wanted, atol=1e-5)
    if made(name).attention is not None:
        assert alpha.shape == (B, T, S)
        np.testing.assert_allclose(alpha, aligned, atol=1e-6)
        assert (alpha[aligned == 0] == 0).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_step_by_step(name):
    layer, logits = made(name), []
    begin, say = (
        kernels.compiled(Through(layer, method)) for method in ("begin", "say")
    )
    state = begin(*map(keras.ops.convert_to_tensor, (memory, summary, real)))
    for t in range(T):
        z, state = say(state, keras.ops.convert_to_tensor(target[:, t]))
        logits.append(toys.array(z))
    np.testing.assert_allclose(np.stack(logits, 1), called(name)[1], atol=1e-5)


@pytest.mark.parametrize("name", ["none", "luong"])
def test_at_once_is_in_turn(name, monkeypatch):
    layer = made(name)
    assert not layer.in_turn(training=False)
    _, logits, alpha = called(name)
    monkeypatch.setattr(layer, "in_turn", lambda training: True)
    monkeypatch.setattr(teaching, "at_once", None)
    other, again = caller(layer)(target, memory, summary, real)
    np.testing.assert_allclose(other, logits, atol=1e-5)
    np.testing.assert_allclose(again, alpha, atol=1e-5)


def test_what_stands_in_padded_places_changes_nothing():
    garbage = np.where(real[..., None], memory, 100 * memory)
    call, logits, _ = called("luong")
    other, _ = call(target, garbage, summary, real)
    np.testing.assert_allclose(other, logits, atol=1e-5)


def test_without_a_mask_all_is_real():
    layer, everywhere = made("luong"), np.ones((B, S), bool)
    logits, _ = caller(layer)(target, memory, summary)
    expected, _ = references.run(layer, target, memory, summary, everywhere)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_its_config():
    layer = decoder(
        "bahdanau",
        True,
        "LSTM GRU",
        dropout=0.25,
        scheduled_sampling=ScheduledSampling("linear", steps=9, sampled=True),
        name="speaker",
    )
    check_config_names_every_argument(layer)
    check_config_names_every_argument(layer.feeding)
    copy = RecurrentDecoder.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert [type(layer) for layer in copy.recurrent] == [LSTM, GRU]
    assert (copy.attention.units, copy.name, copy.dropout) == (23, "speaker", 0.25)
    assert copy.feeding.schedule.get_config() == layer.feeding.schedule.get_config()
    assert type(layer.feeding).from_config(layer.feeding.get_config()).schedule.sampled


def test_shapes_without_numbers():
    layer = decoder("luong")
    inputs = [keras.Input((None,), dtype="int32"), keras.Input((None, M))]
    logits, alpha = layer(*inputs, keras.Input((N,)), return_attention_scores=True)
    assert logits.shape == (None, None, V)
    assert alpha.shape == (None, None, None)


def test_dropout_is_of_tokens_and_of_what_a_step_comes_to(monkeypatch):
    layer, dropped = decoder("luong", dropout=0.5), []

    def drop(x, training=False):
        dropped.append((tuple(x.shape), training))
        return x

    monkeypatch.setattr(layer.drop, "call", drop)
    caller(layer, training=True)(target, memory, summary, real)
    assert set(dropped) == {((B, T, E), True), ((B, T, H), True)}
    assert layer.drop.rate == 0.5


def test_cells_with_dropout_of_their_own_drop_the_same_in_turn(monkeypatch):
    def layers():
        options = {"return_sequences": True, "seed": 3}
        return [
            ElmanRNN(H, dropout=0.3, **options),
            ElmanRNN(H, recurrent_dropout=0.3, **options),
        ]

    found = []
    for in_turn in (False, True):
        layer = built(RecurrentDecoder(layers(), V, embedding_dim=E), 0.7)
        monkeypatch.setattr(layer, "in_turn", lambda training, turn=in_turn: turn)
        found.append(caller(layer, training=True)(target, memory, summary)[0])
        masks = [cell._dropout_mask for cell in (r.cell for r in layer.recurrent)]
        assert not in_turn or masks == [None, None]  # or the next batch would get them
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)
    plain, _ = references.run(layer, target, memory, summary, real)
    assert np.abs(plain - found[0]).max() > 0.01


@pytest.mark.everywhere("random numbers are drawn before a loop")
def test_each_call_draws_anew():
    layer = ElmanRNN(H, dropout=0.5, recurrent_dropout=0.5, seed=3)
    layer.build((B, T, E))
    found = []
    for _ in range(2):
        with cells.drawn_before([layer], memory[..., :E], training=True):
            drawn = (layer.cell._dropout_mask, layer.cell._recurrent_dropout_mask)
            found.append([keras.ops.convert_to_numpy(mask) for mask in drawn])
        assert layer.cell._dropout_mask is layer.cell._recurrent_dropout_mask is None
    for first, second in zip(*found, strict=True):
        assert (first != second).any()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"attention": keras.layers.Dense(3)}, TypeError, 'None, "bahdanau", "luong"'),
        (
            {"attention": BahdanauAttention(3, dropout=0.1)},
            ValueError,
            "each step waits for the one before",
        ),
        (
            {"attention": LuongAttention(dropout=0.1), "input_feeding": True},
            ValueError,
            "an attention with dropout or sampled=True",
        ),
        (
            {
                "attention": LuongAttention(hard=True, sampled=True),
                "scheduled_sampling": ScheduledSampling("constant", ratio=0.5),
            },
            ValueError,
            "LuongAttention without input feeding and scheduled sampling",
        ),
        ({"scheduled_sampling": 0.5}, TypeError, "ScheduledSampling, got 0.5"),
    ],
)
def test_what_it_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        RecurrentDecoder([GRU(3, return_sequences=True)], V, embedding_dim=5,
                         **arguments)  # fmt: skip


def test_an_attention_that_drops_where_no_step_waits():
    layer = RecurrentDecoder(
        [GRU(H, return_sequences=True)],
        V,
        embedding_dim=E,
        attention=LuongAttention(dropout=0.5, seed=1),
    )
    built(layer)
    dropped, _ = caller(layer, training=True)(target, memory, summary, real)
    plain, _ = references.run(layer, target, memory, summary, real)
    assert np.abs(plain - dropped).max() > 1e-3


def test_no_alignment_without_attention():
    with pytest.raises(ValueError, match="without attention has no alignments"):
        made("none")(target, memory, summary, return_attention_scores=True)


def test_widths_that_do_not_fit():
    layer = RecurrentDecoder(
        [GRU(H, return_sequences=True)],
        V,
        embedding_dim=E,
        attention=LuongAttention("dot"),
    )
    with pytest.raises(ValueError, match='widths 17 and 3. Choose score="gen'):
        layer.build(target.shape, memory.shape, summary.shape)
