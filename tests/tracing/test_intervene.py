"""Interventions: outputs and trace equal the equation in NumPy with changed values."""

import threading

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import kernels, tracing
from kerasseq.layers import GRU, LSTM, ElmanRNN, StackedRNN
from kerasseq.tracing import listeners
from tests.models.seq2seq import toys
from tests.tracing import equations
from tests.tracing.test_trace import (
    COMPILED,
    LAYERS,
    B,
    D,
    H,
    T,
    array,
    assert_equal,
    mask,
    randomize,
    small_model,
    x,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

UNITS, STEPS = [0, 2], slice(2, 5)


def damp(value, t):
    """A change that depends on the value, the unit and the step."""
    value = value.copy()
    value[:, UNITS] = 0.25 - 0.5 * value[:, UNITS] + 0.1 * t
    return value


def change(wanted):
    """The same change in NumPy, for the values with these names."""

    def replace(name, value, t):
        return damp(value, t) if name in wanted else value

    return replace


def intervened(layer, changes, inputs=x, **options):
    """The outputs and the trace of one call with an intervention."""
    with tracing.intervene(layer, changes), tracing.trace(layer) as inside:
        y = array(layer(inputs, **options))
    return y, inside


def built(make, **options):
    layer = make(return_sequences=True, **options)
    layer.build(x.shape)
    randomize(layer)
    return layer


@pytest.mark.everywhere("loops of the backend with changed values", cases=1)
@pytest.mark.parametrize(
    "name", ["peephole_lstm", *(n for n in LAYERS if n != "peephole_lstm")]
)
def test_changed_values_equal_the_equation(name):
    make, step, options = LAYERS[name]
    layer = built(make)
    names = {
        key: each.shape for key, each in intervened(layer, {})[1].items()
    }  # all gates and states of the cell
    weights = layer.get_weights()
    for wanted in [[key] for key in names] + [list(names)]:
        expected = equations.over_time(
            step, x, H, weights, mask, change=change(wanted), **options
        )
        y, inside = intervened(layer, dict.fromkeys(wanted, damp), mask=mask)
        assert_equal(inside, expected)
        h = expected["hidden_state"]
        started = np.cumsum(mask, axis=1)[..., None] > 0
        np.testing.assert_allclose(y, np.where(started, h, 0), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["gru", "coupled_lstm"])
def test_backwards_time_runs_in_the_order_of_the_input(name):
    make, step, options = LAYERS[name]
    layer = built(make, go_backwards=True)
    expected = equations.over_time(
        step,
        x,
        H,
        layer.get_weights(),
        backwards=True,
        change=change(["candidate"]),
        **options,
    )
    y, inside = intervened(layer, {"candidate": damp})
    assert_equal(inside, expected)
    np.testing.assert_allclose(y[:, ::-1], expected["hidden_state"], atol=2e-6)


def test_trace_outside_or_inside_and_in_one_run():
    layer, calls = built(LAYERS["lstm"][0]), []

    def count(value, t):
        calls.append(t)
        return value / 2

    changes = {"cell_state": count}
    with tracing.trace(layer) as outside, tracing.intervene(layer, changes):
        first = array(layer(x))
    second, inside = intervened(layer, changes)
    assert calls == [*range(T), *range(T)]
    np.testing.assert_array_equal(first, second)
    for key in inside:
        np.testing.assert_array_equal(inside[key], outside[key])
    np.testing.assert_array_equal(inside["hidden_state"], first)


def test_stacked_and_bidirectional():
    cells = [kerasseq.layers.LSTMCell(H), kerasseq.layers.GRUCell(H)]
    stacked = StackedRNN(cells, name="stacked", return_sequences=True)
    both = keras.layers.Bidirectional(LSTM(2, name="memory"), name="both")
    model = keras.Sequential([keras.Input((T, D)), stacked, both])
    randomize(model)
    changes = {
        "stacked/layer_2/update_gate": damp,
        "both/backward_memory/input_gate": lambda i, t: i * (t > 3),
    }
    before = array(model(x))
    y, inside = intervened(model, changes)
    lower = equations.over_time(equations.lstm, x, H, stacked.rnns[0].get_weights())
    assert_equal(inside, lower, "stacked/layer_1/")
    upper = equations.over_time(
        equations.gru,
        lower["hidden_state"],
        H,
        stacked.rnns[1].get_weights(),
        change=change(["update_gate"]),
    )
    assert_equal(inside, upper, "stacked/layer_2/")
    expected = equations.over_time(
        equations.lstm,
        upper["hidden_state"],
        2,
        both.get_weights()[3:],
        backwards=True,
        change=lambda name, v, t: v * (t > 3) if name == "input_gate" else v,
    )
    assert_equal(inside, expected, "both/backward_memory/")
    np.testing.assert_allclose(y[:, 2:], expected["hidden_state"][:, 0], atol=2e-6)
    np.testing.assert_array_equal(array(model(x)), before)


def test_numbers_arrays_and_chosen_entries():
    layer = built(LAYERS["lstm"][0])
    _, plain = intervened(layer, {})
    value = np.random.default_rng(3).normal(size=(B, T, H)).astype("float32")
    some = np.array([True, False])
    cases = [
        (0.0, lambda v: np.zeros_like(v)),
        (1, lambda v: np.ones_like(v)),
        (value, lambda v: value),
        (keras.ops.convert_to_tensor(value), lambda v: value),
        (value[0, 0], lambda v: np.broadcast_to(value[0, 0], v.shape)),
        (tracing.at(0.5, units=1), lambda v: put(v, np.s_[:, :, 1], 0.5)),
        (tracing.at(0.5, steps=STEPS), lambda v: put(v, np.s_[:, STEPS], 0.5)),
        (tracing.at(0.5, rows=some), lambda v: put(v, np.s_[:1], 0.5)),
        (
            tracing.at(value, rows=-1, units=UNITS, steps=range(3)),
            lambda v: put(v, np.ix_([1], [0, 1, 2], UNITS), value[1:, :3, UNITS]),
        ),
        (
            tracing.at(lambda v, t: t / 10, units=[1], steps=[6]),
            lambda v: put(v, np.s_[:, 6, 1], 0.6),
        ),
    ]
    for replacement, expected in cases:
        _, inside = intervened(layer, {"forget_gate": replacement})
        first = expected(plain["forget_gate"])[:, :1]  # later ones change with h
        np.testing.assert_array_equal(inside["forget_gate"][:, :1], first)
        replaced = expected(inside["forget_gate"])
        np.testing.assert_allclose(inside["forget_gate"], replaced, atol=1e-7)


def put(value, index, new):
    value = value.copy()
    value[index] = new
    return value


@pytest.mark.everywhere("fused attention of the backend")
def test_attention_weights_and_hidden_states_of_a_transformer():
    model = kerasseq.models.GPT(
        vocabulary_size=11, num_layers=2, num_heads=2, hidden_dim=6
    )
    randomize(model)
    ids = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    plain = array(model(ids))
    with tracing.trace(model) as before:
        np.testing.assert_array_equal(array(model(ids)), plain)  # still fused
    uniform = np.tril(np.ones((5, 5))) / np.arange(1, 6)[:, None]
    key = "block_0/self_attention/alignment"
    logits, inside = intervened(model, {key: uniform}, ids)
    np.testing.assert_allclose(inside[key], np.broadcast_to(uniform, (2, 2, 5, 5)))
    attention = model.stack.blocks[0]._self_attention_layer
    heads = uniform @ before["block_0/self_attention/value"]  # (B, N, T, V)
    np.testing.assert_allclose(inside["block_0/self_attention/heads"], heads, atol=1e-5)
    kernel, bias = map(array, attention.output_dense.weights)
    context = np.einsum("bntv,nvd->btd", heads, kernel) + bias
    np.testing.assert_allclose(
        inside["block_0/self_attention/context"], context, atol=1e-5
    )
    assert np.abs(logits - plain).max() > 1e-3
    # The hidden states of one text put into another give its logits.
    key = "block_1/output"
    other = array(model(ids[::-1]))
    logits, _ = intervened(model, {key: before[key][::-1]}, ids)
    np.testing.assert_allclose(logits, other, atol=1e-5)
    # A head whose weights are 0 adds nothing.
    key = "block_0/self_attention/alignment"
    _, inside = intervened(model, {key: tracing.at(0.0, heads=1)}, ids)
    np.testing.assert_array_equal(inside["block_0/self_attention/heads"][:, 1], 0)
    assert np.abs(inside["block_0/self_attention/heads"][:, 0]).min() > 0
    # A key that is masked has weight 0, and the others grow.
    changes = {"block_0/self_attention/mask": tracing.at(False, units=0)}
    _, inside = intervened(model, changes, ids)
    alpha = inside["block_0/self_attention/alignment"]
    np.testing.assert_array_equal(alpha[..., 0], 0)
    np.testing.assert_allclose(alpha[:, :, 1:].sum(axis=-1), 1, rtol=1e-5)
    heads = alpha @ inside["block_0/self_attention/value"]
    np.testing.assert_allclose(inside["block_0/self_attention/heads"], heads, atol=1e-5)
    # Replaced queries, values and heads are used as well, with the axes of the trace.
    for name in ("query", "value", "heads"):
        key = f"block_0/self_attention/{name}"
        new = np.random.default_rng(3).normal(size=before[key].shape)
        _, inside = intervened(model, {key: new.astype("float32")}, ids)
        q, k, v, alpha, heads, out = (
            inside[f"block_0/self_attention/{each}"].astype("float64")
            for each in ("query", "key", "value", "alignment", "heads", "context")
        )
        np.testing.assert_allclose(inside[key], new, atol=1e-6)
        e = np.where(np.tri(5), q @ k.swapaxes(2, 3) / 3**0.5, -np.inf)
        p = np.exp(e - e.max(axis=-1, keepdims=True))
        np.testing.assert_allclose(alpha, p / p.sum(-1, keepdims=True), atol=1e-5)
        if name != "heads":
            np.testing.assert_allclose(heads, alpha @ v, atol=1e-5)
        expected = np.einsum("bntv,nvd->btd", heads, kernel) + bias
        np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("attention", ["luong", "bahdanau"])
def test_attention_of_one_head_and_of_a_decoder_that_runs_step_by_step(attention):
    model = toys.ids_model(attention=attention)
    source, target = np.array([[3, 4, 5, 1, 2]]), np.array([[1, 4, 6, 5]])
    first = np.eye(5)[0]
    with tracing.trace(model) as inside:
        model([source, target])
    (key,) = (key for key in inside if key.endswith("/alignment"))
    with tracing.intervene(model, {key: first}), tracing.trace(model) as inside:
        model([source, target])
    assert inside[key].shape == (1, 4, 5)
    np.testing.assert_array_equal(inside[key], np.broadcast_to(first, (1, 4, 5)))
    context = inside[key.replace("alignment", "context")]
    np.testing.assert_allclose(context, context[:, :1].repeat(4, axis=1))
    layer = key.replace("alignment", "scores")
    changes = {key: tracing.at(0.0, units=0), "decoder/gru/update_gate": 0.5}
    with tracing.intervene(model, changes), tracing.trace(model) as inside:
        changed = model.translate(source[0], max_new_tokens=4).alignment
    np.testing.assert_array_equal(changed[:, 0], 0)
    steps = inside["decoder/gru/update_gate"]  # of decoding, and of the alignment
    assert all((step == 0.5).all() for step in steps) and len(inside[layer]) > 4


@pytest.mark.everywhere("generation runs uncompiled")
def test_generation_uses_the_changed_values():
    tokenizer = kerasseq.text.CharacterTokenizer().fit("abcdefghij")
    model = kerasseq.models.LanguageModel("lstm", tokenizer, units=H, embedding_dim=2)
    randomize(model)
    options = {"max_new_tokens": 7, "temperature": 0}
    plain = [model.generate("abc", **options) for _ in range(2)]
    bias = model.get_layer("logits").weights[1]
    always = "abc" + 7 * tokenizer.decode([int(np.argmax(array(bias)))])
    with tracing.intervene(model, {"lstm/output_gate": 0.0}):  # only the bias is left
        assert model.generate("abc", **options) == always
        assert "".join(model.stream("abc", **options)) == always[3:]
    assert plain[0] == plain[1] == model.generate("abc", **options) != always


def test_gradients_flow_through_replaced_values():
    layer = ElmanRNN(H, activation="linear", use_bias=False, name="linear")
    model = keras.Sequential([keras.Input((T, D)), layer])
    model.compile("sgd", "mse")
    randomize(model)
    y = np.zeros((B, H))
    plain = tracing.gradient_flow(model, x, y)["linear/hidden_state"]
    cut = {"linear/hidden_state": tracing.at(0.5, steps=3)}
    with tracing.intervene(model, cut):
        found = tracing.gradient_flow(model, x, y)["linear/hidden_state"]
        loss = np.mean(array(model(x)) ** 2)
    np.testing.assert_array_equal(found[:3], 0)  # a constant stands between
    assert found[3:].min() > 0 and plain.min() > 0 and np.isfinite(loss)
    with (
        tracing.intervene(model, {"linear/hidden_state": damp}),
        pytest.raises(ValueError, match="number or an array while gradients"),
    ):
        tracing.gradient_flow(model, x, y)


@pytest.mark.everywhere("eager calls and their order")
def test_outside_the_block_nothing_has_changed():
    layer = built(LAYERS["lstm"][0], dropout=0.3, seed=5)
    other = built(LAYERS["lstm"][0], dropout=0.3, seed=5)
    plain = [array(other(x, training=True)) for _ in range(3)]
    first = array(layer(x, training=True))
    with (
        pytest.raises(ZeroDivisionError),
        tracing.intervene(layer, {"cell_state": fails}),
    ):
        layer(x, training=True)
    np.testing.assert_array_equal([first, array(layer(x, training=True))], plain[::2])
    assert listeners.active() == () and not kernels.is_uncompiled()
    # A layer that is not concerned gives the same bits inside the block.
    two = keras.Sequential(
        [
            keras.Input((T, D)),
            LSTM(H, name="a", return_sequences=True),
            GRU(2, name="b", return_sequences=True),
        ]
    )
    randomize(two)
    plain = array(two(x))
    for _ in range(2):  # the second call knows the names of a
        with tracing.intervene(two, {"b/hidden_state": tracing.at(0.0, steps=[6])}):
            first, second = array(two(x)), array(two(x))
        np.testing.assert_array_equal(first[:, 6], 0)
        np.testing.assert_allclose(first[:, :6], plain[:, :6], atol=1e-6)
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(array(two(x)), plain)


def test_nested_blocks():
    layer = built(LAYERS["gru"][0])
    double, add = (lambda v, t: 2 * v), (lambda v, t: v + 1)
    with tracing.trace(layer) as inside:
        with tracing.intervene(layer, {"update_gate": double}):
            with tracing.intervene(layer, {"update_gate": add, "reset_gate": 0.0}):
                layer(x)
            layer(x)
        layer(x)
    both, outer, none = (value[:, 0] for value in inside["update_gate"])
    np.testing.assert_allclose(both, 2 * none + 1, rtol=1e-6)
    np.testing.assert_allclose(outer, 2 * none, rtol=1e-6)
    np.testing.assert_array_equal(inside["reset_gate"][0], 0)


def test_threads_do_not_share_interventions():
    model = small_model()
    plain, found = array(model(x)), {}
    opened, closed = threading.Event(), threading.Event()

    def work():
        with tracing.intervene(model, {"gru/hidden_state": 7.0}):
            opened.set()
            closed.wait(60)
            found["inside"] = array(model(x))
            with pytest.raises(RuntimeError, match="predict runs compiled code"):
                model.predict(x)

    thread = threading.Thread(target=work)
    thread.start()
    assert opened.wait(60)
    np.testing.assert_array_equal(array(model(x)), plain)
    np.testing.assert_array_equal(model.predict(x, verbose=0).shape, (B, 2))
    closed.set()
    thread.join(60)
    np.testing.assert_array_equal(found["inside"], np.full((B, 2), 7.0))
    assert not set(COMPILED) & set(vars(model))


@pytest.mark.everywhere("eager calls and their order")
def test_compiled_calls_raise_inside_and_work_after():
    model = small_model()
    with tracing.intervene(model, {"gru/update_gate": 0.0}):
        for name, call in COMPILED.items():
            with pytest.raises(RuntimeError, match=rf"^{name} runs.*model\(x\)"):
                call(model)
        model(x)
    assert not set(COMPILED) & set(vars(model))
    assert model.predict(x, verbose=0).shape == (B, 2)


def test_wrong_keys():
    model = keras.Sequential(
        [
            keras.Input((T, D)),
            LSTM(H, name="a", return_sequences=True),
            GRU(2, name="b"),
        ]
    )
    for key, nearest in [
        ("a/forgetgate", "a/forget_gate"),
        ("bb/update_gate", "b/update_gate"),
    ]:
        with (
            pytest.raises(
                KeyError, match=f'no .*{key}.*Did you mean "{nearest}".*b/cand'
            ),
            tracing.intervene(model, {key: 0.0}),
        ):
            model(x)
    with (
        pytest.raises(
            KeyError, match=r"nothing was .* replaced.*call the model itself"
        ),
        tracing.intervene(model, {"a/forget_gate": 0.0}),
    ):
        pass


def fails(value, t):
    raise ZeroDivisionError("of the function")


@pytest.mark.parametrize(
    ("replacement", "error", "message"),
    [
        (fails, ZeroDivisionError, "of the function"),
        (
            lambda v, t: v[:, :2],
            ValueError,
            r"shape \(2, 3\), received float32.*\(2, 2\)",
        ),
        (lambda v, t: None, TypeError, "must return the new value, received None"),
        (lambda v, t: "word", ValueError, "number or an array of shape"),
        (np.zeros((B, 4, H)), ValueError, r"broadcasts to its shape \(2, 7, 3\)"),
        (tracing.at(0.0, units=H), ValueError, "units of 'forget_gate' must be from 0"),
        (tracing.at(0.0, steps=[T]), ValueError, "steps of .* from 0 to 6, received"),
        (tracing.at(0.0, heads=0), ValueError, "heads must not be given for"),
    ],
)
def test_wrong_replacements_leave_nothing_behind(replacement, error, message):
    layer = built(LAYERS["lstm"][0])
    plain = array(layer(x))
    with (
        pytest.raises(error, match=message),
        tracing.intervene(layer, {"forget_gate": replacement}),
    ):
        layer(x)
    np.testing.assert_array_equal(array(layer(x)), plain)
    assert listeners.active() == () and not kernels.is_uncompiled()


@pytest.mark.parametrize("value", ["word", None, {}, [[1], [1, 2]]])
def test_wrong_types(value):
    layer = LSTM(H)
    with (
        pytest.raises(TypeError, match="must be a number, an array, a function"),
        tracing.intervene(layer, {"forget_gate": value}),
    ):
        pass
    with pytest.raises(TypeError, match="changes must be a dictionary"):
        tracing.intervene(layer, value if value != {} else None).__enter__()
    with pytest.raises(TypeError, match="units must be an integer"):
        tracing.at(0.0, units="a")


def test_third_party_cells():
    layer = kerasseq.layers.RNN(keras.layers.SimpleRNNCell(H), return_sequences=True)
    layer.build(x.shape)
    randomize(layer)
    W, U, b = layer.get_weights()
    y, inside = intervened(layer, {"state_0": lambda h, t: h / 2})
    h = np.zeros((B, H))
    for t in range(T):
        h = np.tanh(x[:, t] @ W + h @ U + b) / 2
        np.testing.assert_allclose(y[:, t], h, atol=1e-6)
        np.testing.assert_allclose(inside["state_0"][:, t], h, atol=1e-6)


def test_mixed_precision_and_functions_may_change_their_value():
    layer = LSTM(H, dtype="mixed_bfloat16", return_sequences=True)

    def close(value, t):
        value[:, 1] = 0
        return value

    y, inside = intervened(layer, {"output_gate": close})
    assert keras.backend.standardize_dtype(layer(x).dtype) == "bfloat16"
    np.testing.assert_array_equal(inside["output_gate"][..., 1].astype("float32"), 0)
    np.testing.assert_array_equal(y[..., 1].astype("float32"), 0)
