"""`MixtureOfExperts`: its equation, padding, capacity, losses, and what uses it."""

import importlib

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import kernels, models
from kerasseq.layers import FeedForward, MixtureOfExperts
from kerasseq.transformer.segment_block import SegmentBlock

kernel = importlib.import_module("kerasseq.kernels.mixture")
pytestmark = pytest.mark.once("equations of one layer, tested on each backend below")

B, T, D, E, F = 2, 13, 7, 5, 11
rng = np.random.default_rng(0)
X = rng.normal(size=(B, T, D)).astype("float32")
REAL = np.ones((B, T), bool)
REAL[0, :3] = REAL[0, 7] = REAL[1, -2:] = False


def numpy(x):
    return ops.convert_to_numpy(ops.stop_gradient(x))


def made(*args, seed=3, x=X, **options):
    """A layer with random weights, biases among them."""
    layer = MixtureOfExperts(*(args or (E, F)), **options)
    layer.build(x.shape)
    random = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(random.normal(size=weight.shape) * 0.7)
    return layer


def softmax(s):
    powers = np.exp(s - s.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gelu(x):
    return numpy(keras.activations.gelu(ops.convert_to_tensor(x)))


def feed_forward(layer, x, e):
    """What expert e computes of one token."""
    W = {name: numpy(w)[e] for name, w in layer.kernels.items()}
    b = {name: numpy(w)[e] for name, w in layer.biases.items()}
    y = {n: x @ W[n] + b.get(n, 0) for n in W if n != "output"}
    if "gate" in y:
        h = y["gate"] / (1 + np.exp(-y["gate"])) * y["intermediate"]
    else:
        h = gelu(y["intermediate"])
    return h @ W["output"] + b.get("output", 0)


def expected(layer, x, chosen=None):
    """The equation, one token after the other, and the experts that it chose."""
    p = softmax(x @ numpy(layer.router_kernel))
    y, best = np.zeros_like(x), np.argsort(-p, axis=-1)[..., : layer.top_k]
    for at in np.ndindex(x.shape[:-1]):
        g = p[at][best[at]]
        g = g / g.sum() if layer.norm_topk_prob else g
        for gate, e in zip(g, best[at], strict=True):
            if chosen is None or e in chosen[at]:
                y[at] += gate * feed_forward(layer, x[at], e)
    return y, best


@pytest.mark.everywhere("rows by expert, of a few and of many tokens", cases=2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 1, "norm_topk_prob": False, "feed_forward": "gelu"},
        {"top_k": E, "use_bias": True, "feed_forward": "gelu"},
        {"top_k": 3, "use_bias": True},
    ],
    ids=lambda options: "-".join(f"{k}={v}" for k, v in options.items()),
)
def test_equals_the_equation(options):
    layer = made(**options)
    wanted, _ = expected(layer, X)
    np.testing.assert_allclose(numpy(layer(X)), wanted, atol=2e-5)
    some = numpy(layer(X[:1, :3]))  # few enough for a copy of the weights of each
    np.testing.assert_allclose(some, wanted[:1, :3], atol=2e-5)
    padded = numpy(layer(X, mask=REAL))
    np.testing.assert_allclose(padded, wanted * REAL[..., None], atol=2e-5)
    assert (numpy(layer(X, mask=np.zeros((B, T), bool))) == 0).all()


@pytest.mark.everywhere("gradients of sorted rows")
def test_three_ways_have_one_gradient():
    """Copies of weights, blocks, and on PyTorch one call for each expert."""
    random = np.random.default_rng(1)
    x, chosen = X.reshape(-1, D), random.integers(0, E + 1, (B * T, 2))
    chosen[:, 1] = np.where(chosen[:, 1] == chosen[:, 0], E, chosen[:, 1])
    chosen[:2] = E
    gates = random.random((B * T, 2)).astype("float32")
    W = random.normal(size=(E, D, F)).astype("float32")
    upstream = random.normal(size=(B * T, F)).astype("float32")

    def function(x, w):
        return ops.tanh(kernels.matmul(x, w))

    def outputs(way):
        def loss(arguments):
            x, gates, w = (ops.convert_to_tensor(a) for a in arguments)
            if way is None:
                y = kernels.mixture(function, x, gates, chosen, [w])
            else:
                index = ops.convert_to_tensor(chosen, "int32")
                y = way(function, x, index, [w])
                g = ops.where(index < E, gates, 0.0)[..., None]
                y = ops.sum(g * y, axis=1)
            return ops.sum(y * ops.convert_to_tensor(upstream))

        arguments = [ops.convert_to_tensor(a) for a in (x, gates, W)]
        return [loss(arguments), *kernels.gradients(loss, arguments)]

    read = chosen < E
    rows = np.tanh(np.einsum("rd,edf->ref", x, W))
    rows = np.take_along_axis(rows, np.minimum(chosen, E - 1)[..., None], axis=1)
    wanted = ((gates * read)[..., None] * rows).sum(1)
    for way in (None, kernel._of_pairs, kernel._in_blocks):
        loss, *found = (numpy(a) for a in outputs(way))
        np.testing.assert_allclose(loss, (wanted * upstream).sum(), rtol=1e-4)
        unread = np.flatnonzero(~read.any(1))
        assert (found[0][unread] == 0).all() and len(unread)
        if way is None:
            first = found
        for a, b in zip(first, found, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)
    assert np.abs(first[2]).max() > 0.1


def test_one_expert_is_a_feed_forward_network():
    layer = made(1, F, top_k=1, use_bias=True)
    single = FeedForward(F, activation="silu", gated=True)
    single.build(X.shape)
    for name, dense in (
        ("gate", single.gate_dense),
        ("intermediate", single.intermediate_dense),
        ("output", single.output_dense),
    ):
        dense.kernel.assign(layer.kernels[name][0])
        dense.bias.assign(layer.biases[name][0])
    np.testing.assert_allclose(numpy(layer(X)), numpy(single(X)), atol=1e-5)


def test_shared_experts_and_permuted_ones():
    layer = made(shared_experts=2)
    own, _ = expected(layer, X)
    shared = numpy(layer.shared(X))
    assert layer.shared.intermediate_dim == 2 * F
    np.testing.assert_allclose(numpy(layer(X)), own + shared, atol=2e-5)
    order, other = np.random.default_rng(2).permutation(E), made(shared_experts=2)
    other.router_kernel.assign(numpy(layer.router_kernel)[:, order])
    for name, weight in other.kernels.items():
        weight.assign(numpy(layer.kernels[name])[order])
    np.testing.assert_allclose(numpy(other(X)), numpy(layer(X)), atol=1e-5)


@pytest.mark.everywhere("sums over time")
@pytest.mark.parametrize("factor", [0.4, 1.0])
def test_capacity_drops_exactly_those_beyond_it(factor):
    """The first real tokens of a sequence that chose an expert; only in training."""
    layer = made(capacity_factor=factor, top_k=2)
    y, best = expected(layer, X)
    np.testing.assert_allclose(
        numpy(layer(X, mask=REAL)), y * REAL[..., None], atol=2e-5
    )
    kept, dropped = {}, 0
    for b in range(B):
        limit = np.ceil(factor * REAL[b].sum() * 2 / E)
        counts = np.zeros(E)
        for t in range(T):
            for e in best[b, t]:
                counts[e] += REAL[b, t]
            kept[b, t] = [e for e in best[b, t] if counts[e] <= limit and REAL[b, t]]
            dropped += REAL[b, t] * 2 - len(kept[b, t])
    assert 0 < dropped < B * T * 2 - 3
    wanted, _ = expected(layer, X, kept)
    with kerasseq.tracing.trace(layer) as inside:
        found = numpy(layer(X, mask=REAL, training=True))
    np.testing.assert_allclose(found, wanted * REAL[..., None], atol=2e-5)
    assert (inside["chosen"] == E).sum() == dropped + 2 * (~REAL).sum()
    alone = numpy(layer(X[1:], mask=REAL[1:], training=True))
    np.testing.assert_allclose(alone, found[1:], atol=2e-5)


@pytest.mark.parametrize("top_k", [1, 2, 5])
def test_the_balance_is_one_where_all_are_equally_busy(top_k):
    layer = made(top_k=top_k, norm_topk_prob=False, router_aux_loss_coef=1.0)
    x = np.tile(np.eye(E, D, dtype="float32"), (3, 1))[None]
    score = np.zeros((D, E))  # token e prefers e, then e + 1 …
    for e in range(E):
        score[e] = np.roll(np.arange(E, 0, -1), e)
    layer.router_kernel.assign(score)
    layer(x, training=True)
    assert float(numpy(layer.losses[-1])) == pytest.approx(1, abs=1e-5)
    layer.router_kernel.assign(np.where(np.arange(E) == 0, 30.0, 0) * np.ones((D, 1)))
    layer(x, training=True)  # all choose the first expert
    if top_k == 1:
        assert float(numpy(layer.losses[-1])) == pytest.approx(E, abs=1e-4)


def test_losses_count_real_tokens_and_only_training():
    options = {"router_aux_loss_coef": 0.5, "router_z_loss_coef": 0.25}
    layer = made(**options)
    layer(X, mask=REAL, training=True)
    s = X @ numpy(layer.router_kernel)
    p, (_, best) = softmax(s), expected(layer, X)
    f = np.array([(best[REAL] == e).sum() for e in range(E)]) / (2 * REAL.sum())
    z = np.log(np.exp(s).sum(-1))[REAL] ** 2
    wanted = 0.5 * E * (f * p[REAL].mean(0)).sum() + 0.25 * z.mean()
    assert float(numpy(layer.losses[-1])) == pytest.approx(wanted, rel=1e-5)
    quiet = made(**options)
    quiet(X, mask=REAL)
    assert not quiet.losses


def gpt(num_layers=1, **options):
    experts = MixtureOfExperts(4, 6, name="experts", **options)
    keras.utils.set_random_seed(5)
    return models.GPT(
        vocabulary_size=17,
        num_layers=num_layers,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=None,
        feed_forward=experts,
        max_sequence_length=12,
    )


IDS = rng.integers(1, 17, (6, 12)).astype("int32")


@pytest.mark.everywhere("losses in a compiled step, cached decoding")
def test_in_a_model():
    """The losses reach `fit`; decoding with caches equals forward passes."""
    model = gpt(router_aux_loss_coef=3.0, capacity_factor=1.0)
    added = loss_of_experts(model)
    assert 2.95 < added < 5, "about 3 · 1: the experts are well balanced at the start"
    rows, ids = 3, np.zeros((3, 12), "int32")
    ids[:, :4] = IDS[:rows, :4]
    for t in range(4, 7):
        ids[:, t] = numpy(model(ids))[:, t - 1].argmax(-1)
    found = model.generate(IDS[:rows, :4], max_new_tokens=3, temperature=0)
    np.testing.assert_array_equal(np.asarray(found), ids[:, :7])


def loss_of_experts(model):
    """By how much the loss of training is above that of `evaluate`."""
    model.compile(keras.optimizers.SGD(0.0))
    x, y = IDS[:, :-1], IDS[:, 1:]
    start = model.evaluate(x, y, batch_size=6, verbose=0, return_dict=True)["loss"]
    history = model.fit(x, y, batch_size=6, verbose=0).history
    return history["loss"][0] - start


def test_copies_and_files_have_the_losses(tmp_path):
    model = gpt(num_layers=2, router_aux_loss_coef=3.0, router_z_loss_coef=0.1)
    added = loss_of_experts(model)
    assert added > 6
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    copy = models.GPT.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    for other in (loaded, copy):
        np.testing.assert_allclose(numpy(other(IDS)), numpy(model(IDS)), atol=1e-5)
        assert loss_of_experts(other) == pytest.approx(added, rel=1e-4)
    loaded.compile(keras.optimizers.Adam(0.01))
    experts = [w for w in loaded.weights if "kernel" in w.path and len(w.shape) == 3]
    before = [numpy(w).copy() for w in experts]
    loaded.fit(IDS[:, :-1], IDS[:, 1:], verbose=0, batch_size=3, epochs=2)
    for old, new in zip(before, experts, strict=True):
        assert np.abs(numpy(new) - old).max() > 1e-3


@pytest.mark.parametrize("several", [False, True])
def test_a_width_that_no_block_has(several):
    """Experts have a width of their own; that of the model would go unused."""
    experts = MixtureOfExperts(E, F)
    sizes = {"vocabulary_size": 17, "num_layers": 2, "num_heads": 2, "hidden_dim": 8}
    with pytest.raises(ValueError, match="intermediate_dim=13. Leave it out: a layer"):
        models.GPT(
            **sizes,
            intermediate_dim=13,
            feed_forward=[experts, "none"] if several else experts,
        )
    mixed = models.GPT(**sizes, intermediate_dim=13, feed_forward=[experts, "relu"])
    assert mixed.get_layer("block_1").intermediate_dim == 13


@pytest.mark.parametrize("parallel", [False, True])
def test_padding_of_a_segment_is_routed_nowhere(parallel):
    """The block of `memory_length` passes its mask on, as the others do."""
    block = SegmentBlock(
        None,
        1,
        norm_placement="pre",
        parallel=parallel,
        feed_forward=MixtureOfExperts(E, F, name="experts"),
    )
    block.build((None, None, D))
    real = np.concatenate([np.zeros((B, 2), bool), REAL], axis=1)
    memory = np.zeros((B, 2, D), "float32")
    with kerasseq.tracing.trace(block) as inside:
        block.read_after(X, memory, real)
    assert ((inside["experts/chosen"] < E).all(-1) == REAL).all()


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_dtypes(policy):
    """The router computes with the dtype of its weights."""
    exact, layer = made(), made(dtype=policy)
    y = layer(X)
    assert keras.backend.standardize_dtype(y.dtype) == policy.removeprefix("mixed_")
    wanted, _ = expected(exact, X)
    far = np.abs(numpy(ops.cast(y, "float32")) - wanted)
    assert np.median(far) < 0.05, "a rounded score can change a choice, not most"


def peer(name):
    parts = (
        f"transformers.models.{name}.{p}_{name}" for p in ("modeling", "configuration")
    )
    return [pytest.importorskip(part) for part in parts]


def as_torch(x):
    torch = importlib.import_module("torch")
    return torch.tensor(np.array(x))


def test_equals_mixtral_of_hugging_face():
    module, config = peer("mixtral")
    settings = config.MixtralConfig(
        hidden_size=D, intermediate_size=F, num_local_experts=E, num_experts_per_tok=3
    )
    theirs, ours = module.MixtralSparseMoeBlock(settings).eval(), made(top_k=3)
    W = {name: numpy(w).swapaxes(1, 2) for name, w in ours.kernels.items()}
    both = np.concatenate([W["gate"], W["intermediate"]], axis=1)
    theirs.gate.weight.data = as_torch(numpy(ours.router_kernel).T)
    theirs.experts.gate_up_proj.data = as_torch(both)
    theirs.experts.down_proj.data = as_torch(W["output"])
    wanted = theirs(as_torch(X)).detach().numpy()
    np.testing.assert_allclose(numpy(ours(X)), wanted, atol=1e-5)


@pytest.mark.parametrize("factor", [0.6, None])
def test_equals_switch_of_hugging_face(factor):
    """Theirs has a number of tokens as capacity, here what ours comes to."""
    module, config = peer("switch_transformers")
    capacity = T if factor is None else int(np.ceil(factor * T / E))
    settings = config.SwitchTransformersConfig(
        d_model=D,
        d_ff=F,
        num_experts=E,
        expert_capacity=capacity,
        router_jitter_noise=0.0,
        dropout_rate=0.0,
    )
    theirs = module.SwitchTransformersSparseMLP(settings).eval()
    ours = made(
        top_k=1, norm_topk_prob=False, feed_forward="relu", capacity_factor=factor
    )
    theirs.router.classifier.weight.data = as_torch(numpy(ours.router_kernel).T)
    for e in range(E):
        expert = theirs.experts[f"expert_{e}"]
        expert.wi.weight.data = as_torch(numpy(ours.kernels["intermediate"])[e].T)
        expert.wo.weight.data = as_torch(numpy(ours.kernels["output"])[e].T)
    wanted = theirs(as_torch(X)).detach().numpy()
    found = numpy(ours(X, training=factor is not None))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_experts_start_apart_at_the_scale_of_one():
    layer = MixtureOfExperts(E, 31, kernel_initializer=keras.initializers.HeNormal(3))
    layer.build((None, 29))
    W = numpy(layer.kernels["intermediate"])
    assert np.std(W) == pytest.approx((2 / 29) ** 0.5, rel=0.05)
    assert np.abs(W[0] - W[1]).max() > 0.1


def test_noise_is_drawn_in_training():
    layer = made(router_jitter_noise=0.9)
    np.testing.assert_allclose(numpy(layer(X)), expected(layer, X)[0], atol=2e-5)
    with kerasseq.tracing.trace(layer) as inside:
        layer(X, training=True)
    plain = softmax(X @ numpy(layer.router_kernel))
    assert np.abs(inside["router"] - plain).max() > 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top_k": 6}, "top_k must be at most num_experts=5, received 6"),
        ({"top_k": 1}, "norm_topk_prob=True needs a top_k of at least 2, received 1"),
        ({"top_k": 0}, "top_k"),
        ({"feed_forward": "swish"}, 'feed_forward="swish" is not one of'),
        ({"feed_forward": "none"}, 'feed_forward="none" is not one of'),
        ({"capacity_factor": 0}, "capacity_factor"),
        ({"router_aux_loss_coef": -1}, "router_aux_loss_coef must not be negative"),
        ({"router_jitter_noise": 1.5}, "router_jitter_noise"),
        ({"shared_experts": -1}, "shared_experts"),
    ],
)
def test_wrong_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        MixtureOfExperts(E, F, **arguments)
