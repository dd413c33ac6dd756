"""Steps of training that PyTorch records: the same figures, and what stays as it is."""

import keras
import numpy as np
import pytest

from kerasseq import models, tracing
from kerasseq.core import backend
from kerasseq.core.serialization import register

if backend.chosen() != "torch":
    pytest.skip("records on PyTorch", allow_module_level=True)

from kerasseq.kernels.torch.graph import EAGER_CALLS
from kerasseq.layers import AlibiBias
from kerasseq.training import ScheduledSampling

pytestmark = pytest.mark.everywhere("PyTorch's recorded steps")

STEPS = EAGER_CALLS + 3
SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8}
MODERN = {
    "norm": "rms",
    "feed_forward": "swiglu",
    "position": "rope",
    "use_bias": False,
    "num_key_value_heads": 1,
    "sliding_window": 3,
}


def drawn(*shape, high=11, seed=0):
    return np.random.default_rng(seed).integers(1, high, size=shape).astype("int32")


def gpt(**options):
    ids = drawn(3, 7 + 1)
    model = models.GPT(vocabulary_size=11, max_sequence_length=7, **SMALL, **options)
    return model, ids[:, :-1], ids[:, 1:]


def bert():
    model = models.BERT(
        vocabulary_size=11,
        max_sequence_length=7,
        dropout=0.0,
        head="classify",
        num_classes=5,
        **SMALL,
    )
    ids = drawn(3, 7)
    ids[0, 4:] = 0
    return model, {"ids": ids, "segments": ids * 0}, drawn(3, high=5)


def translator(kind, options):
    model = kind(dropout=0.0, **options, **SMALL)
    source, target = drawn(3, 5), drawn(3, 7, seed=1)
    source[0, 3:] = target[1, 4:] = 0
    return model, (source, target), np.roll(target, -1, axis=1)


def transformer(**options):
    sizes = {"source_vocabulary_size": 11, "target_vocabulary_size": 11}
    return translator(models.Transformer, {**sizes, **options})


def t5():
    return translator(models.T5, {"vocabulary_size": 11})


def vit():
    model = models.ViT(5, image_size=4, patch_size=2, channels=3, **SMALL)
    images = np.random.default_rng(0).random((3, 4, 4, 3), "float32")
    return model, images, drawn(3, high=5)


MADE = {
    "GPT": gpt,
    "GPT as LLaMA": lambda: gpt(**MODERN),
    "GPT with ALiBi": lambda: gpt(position="alibi", norm_placement="deep"),
    "BERT": bert,
    "Transformer": transformer,
    "T5": t5,
    "ViT": vit,
}


@pytest.fixture
def counting(monkeypatch):
    def start(model):
        """Note each time that Keras runs the model with values, not for a shape."""
        calls, last = [], [layer for layer in model.layers if layer.weights][-1]
        call = type(last).call

        def count(layer, x, *args, **kwargs):
            if layer is last and x.device.type != "meta":
                calls.append(1)
            return call(layer, x, *args, **kwargs)

        monkeypatch.setattr(type(last), "call", count)
        return calls

    return start


def losses(model, x, y, steps=STEPS):
    return [float(model.train_on_batch(x, y)[0]) for _ in range(steps)]


@pytest.mark.parametrize("policy", ["float32", "float64"])
@pytest.mark.parametrize("name", MADE)
def test_the_figures_are_the_same(name, policy, counting):
    if policy != "float32" and not name.startswith("GPT"):
        pytest.skip("types are looked at with GPT")
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        (one, x, y), (other, *_) = MADE[name](), MADE[name]()
    finally:
        keras.config.set_dtype_policy(before)
    other.set_weights(one.get_weights())
    for model in (one, other):  # Adam would make steps of the noise of no gradient
        model.compile(keras.optimizers.SGD(0.1))
    other._recorded_pass = lambda: None
    assert losses(one, x, y, 1) == losses(other, x, y, 1)  # Keras builds them
    calls, exact = counting(one), 1e-6 if policy == "float32" else 1e-13
    np.testing.assert_allclose(losses(one, x, y), losses(other, x, y), rtol=exact)
    assert len(calls) == EAGER_CALLS - 1  # the last of them to record
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=exact, atol=exact)


def test_a_new_shape_is_recorded_anew_and_other_calls_are_not(counting):
    model, x, y = gpt()
    calls = counting(model)
    losses(model, x, y)
    losses(model, x[:, :5], y[:, :5])
    assert len(calls) == 2 * EAGER_CALLS
    model.evaluate(x, y, verbose=0)
    model(x, training=True)
    assert len(calls) == 2 * EAGER_CALLS + 2


def test_what_draws_is_not_recorded(counting):
    model, x, y = gpt(dropout=0.1)
    calls = counting(model)
    losses(model, x, y)
    assert len(calls) == STEPS


def test_a_schedule_counts_its_steps():
    schedule = ScheduledSampling("linear", steps=100)
    model, x, y = transformer(scheduled_sampling=schedule)
    losses(model, x, y)
    assert int(model.feeding.steps) == STEPS


def test_a_trace_sees_inside():
    model, x, y = gpt()
    losses(model, x, y)
    with tracing.trace(model) as inside:
        model(x, training=True)
    assert inside["block_1/self_attention/alignment"].shape == (3, 2, 7, 7)


@register
class Odd(AlibiBias):
    """Positions that count for more at each call."""

    calls = 0

    def bias(self, *at):
        self.calls += 1
        return super().bias(*at) * self.calls


Odd.__module__ = "somewhere.else"


def test_what_others_wrote_is_not_recorded():
    position = Odd(2)
    model, x, y = gpt(position=position)
    losses(model, x, y)
    assert position.calls >= 2 * STEPS


def test_the_loss_of_an_activity_is_kept():
    model, x, y = gpt()
    before = losses(model, x, y, 1)[0]
    model.get_layer("final_norm").activity_regularizer = keras.regularizers.L2(1.0)
    assert min(losses(model, x, y)) > before + 1


def test_frozen_and_set_free():
    model, x, y = gpt()
    losses(model, x, y)
    block = model.get_layer("block_0")
    before = block.get_weights()
    block.trainable = False
    losses(model, x, y, 2)  # by the operations that were recorded before
    for a, b in zip(before, block.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    block.trainable = True
    losses(model, x, y, 2)
    assert any((a != b).any() for a, b in zip(before, block.get_weights(), strict=True))


def test_changed_layers_are_recorded_anew(counting):
    model, x, y = gpt()
    losses(model, x, y)
    calls = counting(model)
    losses(model, x, y, 2)
    assert not calls
    model.stack.embedding.enable_lora(2)
    model.stack.embedding.lora_embeddings_b.assign(np.ones((2, 8)))
    model.compile(keras.optimizers.SGD(0.0))
    expected = model.evaluate(x, y, verbose=0)[0]
    calls.clear()
    np.testing.assert_allclose(losses(model, x, y, 2), expected, rtol=1e-5)
    assert len(calls) == 2


def test_the_step_after_saving(tmp_path):
    model, x, y = gpt()
    losses(model, x, y)
    model.save(tmp_path / "gpt.keras")
    again = keras.saving.load_model(tmp_path / "gpt.keras")
    assert losses(again, x, y) == losses(model, x, y)
