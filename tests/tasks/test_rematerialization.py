"""What the backward pass computes again changes no result, and takes less memory."""

import gc

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import layers, models, tracing
from kerasseq.tasks.rematerialization import blocks_of

pytestmark = pytest.mark.once("the wrapper of a block is the same on each backend")
V = 11
RNG = np.random.default_rng(0)
IDS, NEXT = RNG.integers(0, V, (2, 3, 7)).astype("int32")
SIZES = {"vocabulary_size": V, "num_layers": 2, "num_heads": 2, "hidden_dim": 8}


def trained(make, x, y, remat, policy="float32", **options):
    """The losses and weights of three steps."""
    keras.utils.set_random_seed(3)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = make()
    finally:
        keras.config.set_dtype_policy(before)
    model.compile(keras.optimizers.SGD(0.1), remat=remat, **options)
    losses = [
        float(model.train_on_batch(x, y, return_dict=True)["loss"]) for _ in range(3)
    ]
    weights = [keras.ops.convert_to_numpy(w) for w in model.weights]
    return losses, [np.asarray(w, "float32") for w in weights]


def check_same(make, x, y, mode, atol=1e-6, **options):
    losses, weights = trained(make, x, y, None, **options)
    found, again = trained(make, x, y, mode, **options)
    np.testing.assert_allclose(found, losses, atol=atol)
    for w, other in zip(weights, again, strict=True):
        np.testing.assert_allclose(other, w, atol=atol)


def gpt(**options):
    return lambda: models.GPT(**{**SIZES, **options})


def lora():
    model = gpt(dropout=0.2)()
    model.enable_lora(2, lora_dropout=0.3)
    return model


def classifier(architecture):
    return lambda: models.SequenceClassifier(
        architecture, labels=3, vocabulary_size=V, units=4, dropout=0.2, num_layers=2
    )


@pytest.mark.everywhere("each backend has its own recomputation", cases=1)
@pytest.mark.parametrize("mode", ["full", "activations"])
def test_dropout_draws_the_same_masks_again(mode):
    make = gpt(num_layers=1, dropout=0.3)
    check_same(make, IDS, NEXT, mode, jit_compile=False)


@pytest.mark.parametrize("mode", ["full", "activations"])
@pytest.mark.parametrize(
    "make",
    [
        gpt(feed_forward=layers.MixtureOfExperts(3, 5, top_k=2), dropout=0.1),
        gpt(attention="rwkv7", position=None, dropout=0.2),
        gpt(position="rope", memory_length=5, dropout=0.2),
        lora,
        lambda: models.LanguageModel("lstm", vocabulary_size=V, units=5, dropout=0.2),
        lambda: models.LanguageModel("wavenet", vocabulary_size=V, units=5),
        lambda: models.LanguageModel("mamba", vocabulary_size=V, units=4),
    ],
    ids=["experts", "rwkv7", "memory", "lora", "lstm", "wavenet", "mamba"],
)
def test_every_kind_of_block_learns_the_same(make, mode):
    check_same(make, IDS, NEXT, mode)


def test_mixed_precision_reads_weights_as_they_are():
    check_same(gpt(dropout=0.2), IDS, NEXT, "full", policy="mixed_bfloat16")


def test_translators_learn_the_same():
    pairs = [("ab", "ba"), ("abc", "cb")]

    def fitted(remat):
        keras.utils.set_random_seed(3)
        text = kerasseq.text.CharacterTokenizer
        model = models.Transformer(
            text().fit("abc"),
            text().fit("abc"),
            num_layers=1,
            num_heads=2,
            hidden_dim=8,
        )
        model.compile(keras.optimizers.SGD(0.1), remat=remat)
        return model.fit(pairs, epochs=2, verbose=0, seed=0).history["loss"]

    np.testing.assert_allclose(fitted("full"), fitted(None), atol=1e-6)


def test_a_trace_inside_a_model_with_remat_is_that_of_one_without():
    model = gpt()()
    before = model(IDS)
    model.compile(remat="full")
    with tracing.trace(model) as trace:
        after = model(IDS)
    assert len(trace) > 0
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(after), keras.ops.convert_to_numpy(before), atol=1e-6
    )


def test_a_file_keeps_the_mode_and_another_compile_ends_it(tmp_path):
    model = gpt(dropout=0.2)()
    model.compile(remat="full")
    model.train_on_batch(IDS, NEXT)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.get_compile_config()["remat"] == "full"
    assert all("call" in vars(block) for block in blocks_of(loaded))
    first = model.train_on_batch(IDS, NEXT, return_dict=True)["loss"]
    again = loaded.train_on_batch(IDS, NEXT, return_dict=True)["loss"]
    np.testing.assert_allclose(float(again), float(first), atol=1e-6)
    loaded.compile()
    assert not any("call" in vars(block) for block in blocks_of(loaded))


def test_a_clone_is_plain_and_says_so():
    """It has no such options, so they are refused, and left out they are not missed."""
    model = gpt()()
    options = {"remat": "full", "loss_chunk_size": 4, "micro_batches": 2}
    model.compile("sgd", **options)
    names = "remat='full', loss_chunk_size=4, micro_batches=2"
    with pytest.raises(ValueError, match=f"cannot be trained with {names}.*from_conf"):
        keras.models.clone_model(model)
    new = type(model).from_config(model.get_config())
    new.compile("sgd", **options)
    assert new.train_on_batch(IDS, NEXT, return_dict=True)["loss"] > 0
    model.compile("sgd")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    logits = [keras.ops.convert_to_numpy(each(IDS)) for each in (clone, model)]
    np.testing.assert_array_equal(*logits)


def test_errors_tell_what_would_be_right():
    with pytest.raises(ValueError, match='remat="ful" is not one of .*mean "full"'):
        gpt()().compile(remat="ful")
    bag = models.SequenceClassifier("bag", labels=3, vocabulary_size=V, units=4)
    with pytest.raises(ValueError, match="needs a model of blocks"):
        bag.compile(remat="full")


def test_twelve_blocks_keep_less_on_pytorch():
    if keras.backend.backend() != "torch":
        pytest.skip("the profiler of PyTorch")
    torch = pytest.importorskip("torch")

    def kept(remat, num_layers=12, dropout=0.1, hidden_dim=SIZES["hidden_dim"]):
        """Bytes that are allocated after a forward pass."""
        sizes = {**SIZES, "num_layers": num_layers, "hidden_dim": hidden_dim}
        model = models.GPT(**sizes, dropout=dropout)
        model.compile(remat=remat)
        x = RNG.integers(0, V, (2, 61))
        activity = [torch.profiler.ProfilerActivity.CPU]
        gc.collect()  # what earlier models have kept is not freed meanwhile
        with torch.profiler.profile(activities=activity, profile_memory=True) as found:
            _logits = model(x, training=True)
            gc.collect()  # as in training, which makes more objects
        return sum(event.self_cpu_memory_usage for event in found.events())

    whole = kept(None)
    assert kept("full") < 0.3 * whole
    assert kept("activations") < 0.5 * whole
    # Without dropout attention keeps no weights: vectors of each position in a block.
    for mode, vectors in ((None, 16), ("activations", 10), ("full", 1)):
        more, fewer = (kept(mode, n, dropout=0.0, hidden_dim=64) for n in (12, 2))
        of_blocks = 10 * 2 * 61 * 64 * 4  # bytes of one vector in each
        assert (more - fewer) / of_blocks == pytest.approx(vectors, abs=0.4)
