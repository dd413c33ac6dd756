"""`GPT(memory_length=M)`: segments after a memory, in `fit`, `evaluate`, `generate`."""

import itertools

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import kernels, layers, models, tracing
from kerasseq.core import masks
from kerasseq.models.gpt.segments import Segments, segments_of_stream
from tests.layer_checks import compiled_on_jax
from tests.models.test_gpt import draw_weights

pytestmark = pytest.mark.once("what depends on the backend is tested everywhere")

V, B, T, M = 11, 3, 5, 7
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 12, "vocabulary_size": V}
POSITIONS = ("rope", "transformer_xl")
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, V, (B, 17)).astype("int32")
TEXT = RNG.integers(0, V, 130).astype("int32")
numpy = keras.ops.convert_to_numpy


def with_memory(position="rope", memory_length=M, scale=0.5, **options):
    options = {**SIZES, "position": position, **options}
    model = models.GPT(memory_length=memory_length, **options)
    return draw_weights(model, scale=scale)


def in_segments(model, ids, cuts, mask=None):
    """Logits of all segments, one after the other."""
    read, states, outputs = compiled_on_jax(model.advance), None, []
    for first, end in itertools.pairwise((0, *cuts, ids.shape[1])):
        part = None if mask is None else mask[:, first:end]
        logits, states = read(ids[:, first:end], states, part)
        outputs.append(numpy(logits))
    return np.concatenate(outputs, axis=1), states


def of_whole(model, ids, allowed):
    """Logits of a whole text where each token attends to those that are allowed."""
    stack = model.stack
    x = stack.embedding(ids)
    for block in stack.blocks:
        x = block(x, decoder_attention_mask=allowed[None])
    return numpy(stack.logits(stack.final_norm(x)))


@pytest.mark.everywhere("masks and positions", cases=1)
@pytest.mark.parametrize("position", POSITIONS)
def test_segments_with_all_before_in_memory_are_the_whole(position):
    model = with_memory(position, memory_length=17)
    whole = numpy(model(IDS))
    assert np.std(whole) > 0.5
    for cuts in [(5, 10), (1, 6, 11)]:
        logits, states = in_segments(model, IDS, cuts)
        np.testing.assert_allclose(logits, whole, atol=1e-5)
    assert [tuple(state.shape) for state in states] == [(B, 17, 12)] * 2 + [(B, 17)]
    assert numpy(states[-1]).all()


@pytest.mark.full("options of blocks, each tested without a memory")
@pytest.mark.parametrize(
    "options",
    [
        {"norm_placement": "post", "num_key_value_heads": 1},
        {"norm_placement": "deep", "embedding_scale": 3.0, "embedding_norm": True},
        {"parallel": True, "norm": "rms", "feed_forward": "swiglu", "head": None},
        {"position": layers.RotaryEmbedding(rope_type="yarn", interleaved=True)},
        {"position": layers.TransformerXLPosition(), "query_key_norm": "rms"},
        {"feed_forward": "none", "use_bias": False, "tie_embeddings": False},
    ],
)
def test_every_block_reads_a_memory(options):
    model = with_memory(memory_length=17, **options)
    logits, _ = in_segments(model, IDS, (4, 5, 11))
    np.testing.assert_allclose(logits, numpy(model(IDS)), atol=2e-5)


@pytest.mark.parametrize("position", POSITIONS)
def test_a_token_sees_its_segment_and_as_many_before_it_as_the_memory_has(position):
    model, query, key = with_memory(position), np.arange(17)[:, None], np.arange(17)
    segment = query // T * T
    allowed = (key <= query) & (key >= segment - M)
    logits, _ = in_segments(model, IDS, (5, 10, 15))
    np.testing.assert_allclose(logits, of_whole(model, IDS, allowed), atol=1e-5)
    assert np.abs(logits - numpy(model(IDS))).max() > 1e-2


def test_no_gradient_flows_into_the_memory():
    stack = with_memory().stack
    _, empty = with_memory().advance(IDS[:, :T])
    empty = [keras.ops.zeros_like(state) for state in empty]

    def last_of_two_segments(segments):
        _, states = stack.advance(segments[0], empty)
        return keras.ops.sum(stack.advance(segments[1], states)[0][..., 0])

    x = [stack.embedding(IDS[:, n : n + T]) for n in (0, T)]
    x = [keras.ops.convert_to_tensor(numpy(each)) for each in x]
    before, own = map(numpy, kernels.gradients(last_of_two_segments, x))
    np.testing.assert_array_equal(before, np.zeros_like(before))
    assert np.abs(own).max() > 1e-3


@pytest.mark.everywhere("masks and positions", cases=1)
@pytest.mark.parametrize("position", POSITIONS[::-1])
def test_generate_is_the_evaluation_of_the_paper_a_token_a_step(position):
    model = with_memory(position, tie_embeddings=False)
    one_by_one, _ = in_segments(model, IDS, range(1, 17))
    window = numpy(masks.causal(17, 17) & masks.window(17, 17, M + 1))[0]
    np.testing.assert_allclose(one_by_one, of_whole(model, IDS, window), atol=1e-5)
    prompts, read = [IDS[0, :13], IDS[1, :2]], compiled_on_jax(model.advance)
    written = model.generate(prompts, 11, sampler="greedy")
    for prompt, ids in zip(prompts, written, strict=True):  # uncached, step by step
        expected, logits, states = list(prompt), None, None
        for n in range(len(prompt) + 11):
            if n == len(expected):
                expected.append(int(numpy(logits)[0, -1].argmax()))
            logits, states = read(np.array([[expected[n]]], "int32"), states)
        assert ids.tolist() == expected


@pytest.mark.full("of a shorter memory everywhere")
def test_generate_with_all_before_in_memory_is_that_without_one():
    model = with_memory(memory_length=31, tie_embeddings=False)
    plain = models.GPT(position="rope", tie_embeddings=False, **SIZES)
    plain.set_weights(model.get_weights())
    prompts = [IDS[0, :13], IDS[1, :2]]
    ids, expected = (m.generate(prompts, 11, sampler="greedy") for m in (model, plain))
    assert [each.tolist() for each in ids] == [each.tolist() for each in expected]


@pytest.mark.everywhere("masks and positions", cases=1)
@pytest.mark.parametrize("position", POSITIONS[::-1])
def test_padding_takes_no_place_in_the_memory(position):
    model, real = with_memory(position), IDS[:, :12]
    expected, _ = in_segments(model, real, (4, 8))
    ids, mask = np.full((B, 21), V - 1, "int32"), np.zeros((B, 21), bool)
    # Segments of 7 with 4 real tokens: padding on the right, on the left, and holes.
    at = np.array([0, 1, 2, 3, 10, 11, 12, 13, 14, 16, 17, 20])
    ids[:, at], mask[:, at] = real, True
    logits, states = in_segments(model, ids, (7, 14), mask)
    np.testing.assert_allclose(logits[:, at], expected, atol=1e-5)
    assert numpy(states[-1]).sum(axis=1).tolist() == [M] * B


def mean_loss(y, logits):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return float(numpy(loss(y, logits)))


def losses_of(model, ids, batch_size):
    """Mean loss of a text, by `advance` over its segments."""
    batches, states, total = Segments(ids, T, batch_size), None, []
    read = compiled_on_jax(model.advance)
    for n in range(batches.steps_per_epoch):
        x, y = batches.batch(n)
        logits, states = read(x, states)
        total.append(mean_loss(y, logits))
    return np.mean(total)


@pytest.mark.everywhere("variables of a model that `fit` changes", cases=1)
@pytest.mark.parametrize("jit_compile", ["auto", False])
def test_fit_and_evaluate_keep_the_memory_over_batches(jit_compile):
    model = with_memory("transformer_xl")
    model.compile(keras.optimizers.SGD(0.0), jit_compile=jit_compile)
    data = {"sequence_length": T, "batch_size": B, "verbose": 0}
    history = model.fit(TEXT, epochs=2, validation_data=TEXT[:60], **data).history
    expected, held_out = losses_of(model, TEXT, B), losses_of(model, TEXT[:60], B)
    np.testing.assert_allclose(history["loss"], [expected] * 2, atol=1e-5)
    np.testing.assert_allclose(history["val_loss"], [held_out] * 2, atol=1e-5)
    # Batches of another size than those in `fit`.
    loss, _ = model.evaluate(TEXT, **{**data, "batch_size": 2})
    np.testing.assert_allclose(loss, losses_of(model, TEXT, 2), atol=1e-5)
    held = [v for v in model.variables if not any(v is w for w in model.weights)]
    assert len([v for v in held if len(v.shape) == 3]) == 4  # 2 blocks, 2 methods
    assert abs(expected - loss_without_memory(model)) > 1e-3


def loss_without_memory(model):
    x, y = Segments(TEXT, T, B).whole()
    return mean_loss(y, model(x))


def test_validation_and_callbacks_leave_the_memory_of_training():
    class Reads(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.predict(IDS, verbose=0)
            self.model.generate(IDS[0], 2)
            self.model(IDS)

    weights = []
    for options in ({}, {"validation_data": TEXT[:60], "callbacks": [Reads()]}):
        model = with_memory()
        data = {"sequence_length": T, "batch_size": B, "verbose": 0}
        model.fit(TEXT, epochs=2, **data, **options)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.once("how arrays are cut")
def test_predictions_do_not_depend_on_the_batch():
    model = with_memory()
    x = np.concatenate([IDS, IDS[::-1]])
    rows = [model.predict(x, batch_size=size, verbose=0) for size in (2, 6)]
    np.testing.assert_allclose(*rows, atol=1e-5)
    np.testing.assert_allclose(rows[0], numpy(model(x)), atol=1e-5)


@pytest.mark.once("how a text is cut")
def test_rows_of_arrays_continue_those_of_the_batch_before():
    x, y = Segments(TEXT, T, B).whole()
    data = {"batch_size": B, "verbose": 0}
    history = []
    for _ in range(2):
        model = with_memory()
        model.compile(keras.optimizers.SGD(0.1))
        if history:
            fitted = model.fit(x, y, shuffle=False, epochs=2, **data)
        else:
            fitted = model.fit(TEXT, sequence_length=T, epochs=2, **data)
        history.append(fitted.history["loss"])
    np.testing.assert_allclose(*history, atol=1e-5)
    loss, _ = model.evaluate(x, y, **data)
    np.testing.assert_allclose(loss, losses_of(model, TEXT, B), atol=1e-5)


@pytest.mark.once("how a text is cut")
def test_a_stream_of_texts_is_read_row_by_row(tmp_path):
    texts = [np.arange(5), np.arange(10, 15), np.arange(20, 23), np.arange(30, 39)]
    batches = list(segments_of_stream(iter(texts), 3, 2))
    rows = np.concatenate([x for x, _ in batches], axis=1)
    assert rows.tolist() == [[0, 1, 2, 3, 4, 20], [10, 11, 12, 13, 14, 30]]
    assert all((y[:, :-1] == x[:, 1:]).all() for x, y in batches)
    tokenizer = kerasseq.text.CharacterTokenizer().fit("abc")
    sizes = {**SIZES, "vocabulary_size": None, "tokenizer": tokenizer}
    model = with_memory(**sizes)
    stream = iter(["abcabcab", "bbcacabcab"] * 9)
    fitted = model.fit(
        stream, sequence_length=T, batch_size=2, steps_per_epoch=4, verbose=0
    )
    assert np.isfinite(fitted.history["loss"]).all()


def test_the_memory_is_emptied_where_the_text_begins_anew():
    """Epochs of a part of the text continue; the next pass starts empty."""
    model = with_memory()
    model.compile(keras.optimizers.SGD(0.0))
    steps = Segments(TEXT, T, B).steps_per_epoch
    assert steps == 8
    data = {"sequence_length": T, "batch_size": B, "verbose": 0}
    parts = model.fit(TEXT, steps_per_epoch=4, epochs=4, **data).history["loss"]
    expected = losses_of(model, TEXT, B)
    assert np.mean(parts[:2]) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(parts[:2], parts[2:], atol=1e-5)


def test_a_file_has_no_memory(tmp_path):
    model = with_memory("transformer_xl", dropout=0.1)
    data = {"sequence_length": T, "batch_size": B, "verbose": 0}
    model.fit(TEXT, validation_split=0.3, **data)
    model.save(tmp_path / "model.keras")
    again = kerasseq.load_model(tmp_path / "model.keras")
    assert again.get_config()["memory_length"] == M
    logits, expected = (in_segments(m, IDS, (5, 10))[0] for m in (again, model))
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    assert not again.segment_memory.variables
    again.fit(TEXT, **data)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    expected, _ = in_segments(with_memory(scale=0.2), IDS, (5, 10))
    keras.config.set_dtype_policy(policy)
    try:
        model = with_memory(scale=0.2)
        logits, states = in_segments(model, IDS, (5, 10))
        data = {"sequence_length": T, "batch_size": B, "verbose": 0}
        losses = model.fit(TEXT, epochs=2, **data).history["loss"]
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(states[0].dtype) == policy[6:]
    np.testing.assert_allclose(logits, expected, atol=0.06)
    assert losses[1] < losses[0]


def test_a_trace_has_the_weights_of_memory_and_segment():
    model = with_memory()
    _, states = model.advance(IDS[:, :4])
    with tracing.trace(model) as trace:
        model.advance(IDS[:, 4:9], states)
    alpha = trace["block_0/self_attention/alignment"]
    assert alpha.shape == (B, 2, 5, M + 5)
    np.testing.assert_allclose(alpha[..., : M - 4], 0)  # the memory is not full
    np.testing.assert_allclose(alpha.sum(axis=-1), 1, atol=1e-5)


def test_frozen_blocks_stay_and_heads_read_whole_texts():
    model = with_memory()
    model.stack.blocks[0].trainable = False
    frozen = [numpy(w) for w in model.stack.blocks[0].weights]
    free = numpy(model.stack.blocks[1].weights[0])
    model.compile()
    model.fit(TEXT, sequence_length=T, batch_size=B, verbose=0)
    for weight, before in zip(model.stack.blocks[0].weights, frozen, strict=True):
        np.testing.assert_array_equal(numpy(weight), before)
    assert np.abs(numpy(model.stack.blocks[1].weights[0]) - free).max() > 1e-4
    task = model.with_head("classify", 3)
    assert task.predict([[3, 1, 4]], verbose=0).shape == (1, 3)


def repeated_blocks(length, width=11, times=9, symbols=7, seed=0):
    """Random blocks, each several times: a token is known from `width` before it."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, symbols, (length // width // times, 1, width))
    return np.tile(blocks, (1, times, 1)).reshape(-1).astype("int32")


@pytest.mark.full("numbers of `fit`, which are tested everywhere")
def test_it_copies_over_a_distance_longer_than_a_segment():
    """Eight of nine tokens are known, from 11 before them; segments have 8."""
    train, test = repeated_blocks(6000), repeated_blocks(2000, seed=1)
    losses, sizes = {}, {**SIZES, "num_layers": 1, "num_heads": 1, "hidden_dim": 16}
    for memory_length in (None, 16):
        keras.utils.set_random_seed(0)
        model = models.GPT(
            **{**sizes, "vocabulary_size": 7, "intermediate_dim": 16},
            position="transformer_xl",
            memory_length=memory_length,
        )
        model.compile(keras.optimizers.Adam(3e-2))
        data = {"sequence_length": 8, "batch_size": 8, "verbose": 0}
        model.fit(train, epochs=2, **data)
        losses[memory_length], _ = model.evaluate(test, **data)
    assert losses[None] > 0.9 * np.log(7)
    assert losses[16] < 0.5 * np.log(7), losses


@pytest.mark.once("messages")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m: with_memory("learned"),
            ValueError,
            'position must be "rope" or "transformer_xl" with memory_length=7, '
            "received position='learned'",
        ),
        (lambda m: with_memory(None), ValueError, "received position=None"),
        (
            lambda m: with_memory(layers.AlibiBias()),
            ValueError,
            "received position=<AlibiBias",
        ),
        (
            lambda m: with_memory(layers.RotaryEmbedding(rope_type="dynamic_ntk")),
            ValueError,
            "constant frequencies .* received rope_type='dynamic_ntk'",
        ),
        (lambda m: with_memory(attention="longformer"), ValueError, "multi_head"),
        (lambda m: with_memory(sliding_window=3), ValueError, "sliding_window=3"),
        (lambda m: with_memory(memory_length=0), ValueError, "memory_length.*0"),
        (lambda m: with_memory(memory_length=1.5), TypeError, "memory_length.*1.5"),
        (
            lambda m: m.fit(IDS, IDS, batch_size=B, verbose=0),
            ValueError,
            "shuffle must be False with memory_length, .* received shuffle=True",
        ),
        (
            lambda m: m.fit(TEXT, sequence_length=T, shuffle=True),
            ValueError,
            "received shuffle=True. Pass shuffle=False",
        ),
        (
            lambda m: m.fit(IDS, IDS, batch_size=2, shuffle=False),
            ValueError,
            "batch_size must divide the 3 rows .* received batch_size=2",
        ),
        (
            lambda m: m.fit(
                IDS, IDS, batch_size=B, shuffle=False, validation_split=0.3
            ),
            ValueError,
            "validation_split must be 0 for arrays .* received 0.3",
        ),
        (lambda m: m.evaluate(IDS, IDS, batch_size=2), ValueError, "must divide the 3"),
        (
            lambda m: m.fit(iter([(IDS, IDS)]), steps_per_epoch=1),
            TypeError,
            "x must be a text, or an array of ids",
        ),
        (lambda m: m.advance(IDS[0]), ValueError, r"\(batch, time\), received .*17"),
        (lambda m: m.advance(IDS + V), ValueError, "ids"),
        (
            lambda m: m.advance(IDS, m.advance(IDS[:2])[1]),
            ValueError,
            r"states\[0\] must have shape \(3, 7, 12\), received shape \(2, 7, 12\)",
        ),
        (
            lambda m: m.advance(IDS, with_memory(memory_length=2).advance(IDS)[1]),
            ValueError,
            r"states\[0\] must have shape \(3, 7, 12\), received shape \(3, 2, 12\)",
        ),
        (
            lambda m: m.advance(IDS, None, np.ones((B, 3), bool)),
            ValueError,
            "mask must have",
        ),
        (
            lambda m: models.GPT(position="rope", **SIZES).advance(IDS),
            ValueError,
            "advance needs a model with a memory, received memory_length=None",
        ),
    ],
)
def test_what_is_wrong_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call(with_memory())
