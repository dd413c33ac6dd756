"""RecurrentDecoder: equals its equations in NumPy, in parallel and step by step."""

import functools

import keras
import numpy as np
import pytest

from kerasseq import kernels
from kerasseq.core.method_layer import MethodLayer
from kerasseq.layers import GRU, LSTM, BahdanauAttention, ElmanRNN, LuongAttention
from kerasseq.models.seq2seq import decoder_cells
from kerasseq.models.seq2seq.recurrent_decoder import RecurrentDecoder
from kerasseq.training import ScheduledSampling
from tests.layer_checks import check_config_names_every_argument
from tests.models.seq2seq import references, toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, M, S, T, N, V, H, E = 2, 3, 5, 7, 11, 13, 17, 19
rng = np.random.default_rng(0)
target = rng.integers(0, V, (B, T)).astype("int32")
memory = rng.normal(size=(B, S, M)).astype("float32")
summary = rng.normal(size=(B, N)).astype("float32")
real = np.array([[True] * S, [False, True, True, False, False]])

# Attention, input feeding, and layers from inputs to outputs.
CONFIGS = {
    "none": (None, False, "LSTM"),
    "none, input feeding": (None, True, "GRU LSTM"),
    "bahdanau": ("bahdanau", False, "LSTM GRU"),
    "bahdanau, input feeding": ("bahdanau", True, "LSTM"),
    "luong": ("luong", False, "GRU LSTM"),
    "luong, input feeding": ("luong", True, "GRU"),
    "none, previous": (None, False, "LSTM", "previous"),
    "bahdanau, previous": ("bahdanau", False, "GRU", "previous"),
    "luong, previous": ("luong", False, "GRU LSTM", "previous"),
    "luong, input feeding, previous": ("luong", True, "GRU", "previous"),
}
ATTENTIONS = {
    None: lambda: None,
    "bahdanau": lambda: BahdanauAttention(23),
    "luong": lambda: LuongAttention("general"),
}
CELLS = {"GRU": GRU, "LSTM": LSTM, "ElmanRNN": ElmanRNN}


def decoder(attention, input_feeding=False, layers="GRU", output_reads=None, **options):
    """A decoder whose layers have different units."""
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
        output_reads=output_reads,
        **options,
    )
    return built(layer)


def built(layer, scale=0.5):
    with toys.zero_initializers():
        layer.build(target.shape, memory.shape, summary.shape)
    return toys.randomize(layer, scale)


@functools.cache
def made(name):
    return decoder(*CONFIGS[name])


def caller(layer, training=False):
    """A compiled function that returns logits and alignment."""
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
def test_equals_numpy(name):
    _, logits, alpha = called(name)
    wanted, aligned = references.run(made(name), target, memory, summary, real)
    np.testing.assert_allclose(logits, wanted, atol=1e-5)
    if made(name).attention is not None:
        assert alpha.shape == (B, T, S)
        np.testing.assert_allclose(alpha, aligned, atol=1e-6)
        assert (alpha[aligned == 0] == 0).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_decode_step_equals_call(name):
    layer, logits = made(name), []
    initial_state, decode_step = (
        kernels.compiled(MethodLayer(layer, method))
        for method in ("initial_state", "decode_step")
    )
    state = initial_state(*map(keras.ops.convert_to_tensor, (memory, summary, real)))
    for t in range(T):
        z, state = decode_step(state, keras.ops.convert_to_tensor(target[:, t]))
        logits.append(toys.array(z))
    np.testing.assert_allclose(np.stack(logits, 1), called(name)[1], atol=1e-5)


@pytest.mark.parametrize("name", ["none", "luong", "luong, previous"])
def test_parallel_equals_step_by_step(name, monkeypatch):
    layer = made(name)
    assert not layer.runs_step_by_step(training=False)
    _, logits, alpha = called(name)
    monkeypatch.setattr(layer, "runs_step_by_step", lambda training: True)
    monkeypatch.setattr(layer, "_call_parallel", None)
    other, again = caller(layer)(target, memory, summary, real)
    np.testing.assert_allclose(other, logits, atol=1e-5)
    np.testing.assert_allclose(again, alpha, atol=1e-5)


def test_masked_memory_has_no_effect():
    garbage = np.where(real[..., None], memory, 100 * memory)
    call, logits, _ = called("luong")
    other, _ = call(target, garbage, summary, real)
    np.testing.assert_allclose(other, logits, atol=1e-5)


def test_no_mask_equals_mask_of_ones():
    layer, everywhere = made("luong"), np.ones((B, S), bool)
    logits, _ = caller(layer)(target, memory, summary)
    expected, _ = references.run(layer, target, memory, summary, everywhere)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_config():
    layer = decoder(
        "bahdanau",
        True,
        "LSTM GRU",
        "previous",
        dropout=0.25,
        scheduled_sampling=ScheduledSampling("linear", steps=9, sampled=True),
        name="custom",
    )
    check_config_names_every_argument(layer)
    check_config_names_every_argument(layer.scheduled_sampler)
    copy = RecurrentDecoder.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert [type(layer) for layer in copy.recurrent_layers] == [LSTM, GRU]
    assert (copy.attention.units, copy.name, copy.dropout) == (23, "custom", 0.25)
    assert (
        copy.scheduled_sampler.schedule.get_config()
        == layer.scheduled_sampler.schedule.get_config()
    )
    assert (
        type(layer.scheduled_sampler)
        .from_config(layer.scheduled_sampler.get_config())
        .schedule.sampled
    )


def test_symbolic_shapes():
    layer = decoder("luong")
    inputs = [keras.Input((None,), dtype="int32"), keras.Input((None, M))]
    logits, alpha = layer(*inputs, keras.Input((N,)), return_attention_scores=True)
    assert logits.shape == (None, None, V)
    assert alpha.shape == (None, None, None)


def test_dropout_applies_to_embeddings_and_outputs(monkeypatch):
    layer, dropped = decoder("luong", dropout=0.5), []

    def drop(x, training=False):
        dropped.append((tuple(x.shape), training))
        return x

    monkeypatch.setattr(layer.dropout_layer, "call", drop)
    caller(layer, training=True)(target, memory, summary, real)
    assert set(dropped) == {((B, T, E), True), ((B, T, H), True)}
    assert layer.dropout_layer.rate == 0.5


def test_dropout_of_cells_step_by_step_equals_parallel(monkeypatch):
    def layers():
        options = {"return_sequences": True, "seed": 3}
        return [
            ElmanRNN(H, dropout=0.3, **options),
            ElmanRNN(H, recurrent_dropout=0.3, **options),
        ]

    found = []
    for by_step in (False, True):
        layer = built(RecurrentDecoder(layers(), V, embedding_dim=E), 0.7)
        monkeypatch.setattr(
            layer, "runs_step_by_step", lambda _, by_step=by_step: by_step
        )
        found.append(caller(layer, training=True)(target, memory, summary)[0])
        masks = [
            cell._dropout_mask for cell in (r.cell for r in layer.recurrent_layers)
        ]
        assert not by_step or masks == [None, None]  # reset for the next batch
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)
    plain, _ = references.run(layer, target, memory, summary, real)
    assert np.abs(plain - found[0]).max() > 0.01


@pytest.mark.everywhere("dropout masks are drawn before the loop")
def test_dropout_masks_are_drawn_for_each_call():
    layer = ElmanRNN(H, dropout=0.5, recurrent_dropout=0.5, seed=3)
    layer.build((B, T, E))
    found = []
    for _ in range(2):
        with decoder_cells.dropout_masks([layer], memory[..., :E], training=True):
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
            "runs step by step, received <BahdanauAttention",
        ),
        (
            {"attention": LuongAttention(dropout=0.1), "input_feeding": True},
            ValueError,
            "must not have dropout if the decoder runs step by step",
        ),
        (
            {
                "attention": LuongAttention(hard=True, sampled=True, dropout=0.1),
                "scheduled_sampling": ScheduledSampling("constant", ratio=0.5),
            },
            ValueError,
            "Use LuongAttention without input feeding and scheduled sampling",
        ),
        (
            {"scheduled_sampling": 0.5},
            TypeError,
            "ScheduledSampling or None, received 0.5",
        ),
        (
            {"output_reads": "next"},
            ValueError,
            'output_reads="next" is not one of None, "previous"',
        ),
    ],
)
def test_wrong_arguments_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        RecurrentDecoder([GRU(3, return_sequences=True)], V, embedding_dim=5,
                         **arguments)  # fmt: skip


def test_attention_dropout_in_parallel():
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


def test_attention_scores_without_attention_raise():
    with pytest.raises(ValueError, match="needs a decoder with attention"):
        made("none")(target, memory, summary, return_attention_scores=True)


def test_dot_attention_of_unequal_widths_raises():
    layer = RecurrentDecoder(
        [GRU(H, return_sequences=True)],
        V,
        embedding_dim=E,
        attention=LuongAttention("dot"),
    )
    with pytest.raises(ValueError, match='widths 17 and 3. Choose score="gen'):
        layer.build(target.shape, memory.shape, summary.shape)
