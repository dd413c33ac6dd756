"""Traces: gates and states equal those of the equations in NumPy; methods restored."""

import copy
import threading

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import tracing
from kerasseq.layers import GRU, LSTM, ElmanRNN, GatedRNN, PeepholeLSTM, StackedRNN
from kerasseq.tracing import listeners
from tests.tracing import equations

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, D, H = 2, 7, 5, 3
LAYERS = {
    "elman": (lambda **k: ElmanRNN(H, **k), equations.elman, {}),
    "gated": (lambda **k: GatedRNN(H, **k), equations.gated, {}),
    "gru": (lambda **k: GRU(H, **k), equations.gru, {}),
    "gru_reset_before": (
        lambda **k: GRU(H, reset_after=False, update="replace", **k),
        equations.gru_reset_before,
        {},
    ),
    "lstm": (lambda **k: LSTM(H, **k), equations.lstm, {}),
    "peephole_lstm": (
        lambda **k: PeepholeLSTM(H, **k),
        equations.lstm,
        {"kind": "diagonal"},
    ),
    "full_peephole_lstm": (
        lambda **k: LSTM(H, peephole="full", **k),
        equations.lstm,
        {"kind": "full"},
    ),
    "coupled_lstm": (
        lambda **k: LSTM(H, coupled=True, **k),
        equations.coupled_lstm,
        {},
    ),
}
rng = np.random.default_rng(0)
x = rng.normal(size=(B, T, D)).astype("float32")
mask = np.array([[True] * T, [False, False, True, True, False, True, False]])


def randomize(layer):
    """Weights of which no two are alike, also where Keras starts from zeros."""
    draw = np.random.default_rng(1)
    layer.set_weights([draw.normal(size=w.shape, scale=0.7) for w in layer.weights])


def array(value):
    return keras.ops.convert_to_numpy(value)


def assert_equal(inside, expected, path=""):
    shown = {key for key in inside if key.startswith(path)}
    assert shown == {path + name for name in expected}
    for name, value in expected.items():
        np.testing.assert_allclose(
            inside[path + name], value, atol=2e-6, rtol=1e-5, err_msg=name
        )


def traced(layer, inputs=x, **options):
    with tracing.trace(layer) as inside:
        layer(inputs, **options)
    return inside


@pytest.mark.everywhere("eager calls and their order", cases=2)
@pytest.mark.parametrize("name", LAYERS)
def test_gates_and_states_equal_the_equation(name):
    make, step, options = LAYERS[name]
    layer = make()
    layer.build(x.shape)
    randomize(layer)
    weights = layer.get_weights()
    expected = equations.over_time(step, x, H, weights, mask, **options)
    assert_equal(traced(layer, mask=mask), expected)  # the first row is not masked


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize("masked", [False, True])
def test_go_backwards_records_in_input_order(name, masked):
    make, step, options = LAYERS[name]
    layer = make(go_backwards=True, return_sequences=True)
    layer.build(x.shape)
    randomize(layer)
    given = mask if masked else None
    expected = equations.over_time(
        step, x, H, layer.get_weights(), given, backwards=True, **options
    )
    inside = traced(layer, mask=given)
    assert_equal(inside, expected)
    if not masked:  # the layer itself returns what it processed first, first
        seen = inside["hidden_state"][:, ::-1]
        np.testing.assert_allclose(seen, array(layer(x)), atol=1e-6)


def test_trace_equals_calling_the_cell_step_by_step():
    layer = PeepholeLSTM(H, return_sequences=True)
    layer.build(x.shape)
    randomize(layer)
    inside = traced(layer)
    states = layer.cell.get_initial_state(B)
    for t in range(T):
        h, states = layer.cell(x[:, t], states)
        np.testing.assert_allclose(inside["hidden_state"][:, t], array(h), atol=1e-6)
        c = array(states[1])
        np.testing.assert_allclose(inside["cell_state"][:, t], c, atol=1e-6)


@pytest.mark.everywhere("eager calls and their order", cases=2)
@pytest.mark.parametrize(("masked", "training"), [(False, False), (True, True)])
def test_traced_output_equals_untraced_bit_for_bit(masked, training):
    options = {"mask": mask if masked else None, "training": training}

    def make():
        layer = LSTM(
            H, return_sequences=True, dropout=0.3, recurrent_dropout=0.2, seed=5
        )
        layer.build(x.shape)
        randomize(layer)
        return layer

    for attempt in range(3):
        layer, other = make(), make()
        # The second call finds the seeds of dropout where the first left them.
        plain = [array(layer(x, **options)) for _ in range(2)]
        with tracing.trace(other) as inside:
            seen = [array(other(x, **options)) for _ in range(2)]
        # Where numbers lie in memory may change the last bit of a product on PyTorch.
        if np.array_equal(plain, seen) or attempt == 2:
            break
    np.testing.assert_array_equal(seen, plain)
    real = mask if masked else np.ones((B, T), bool)
    for h, y in zip(inside["hidden_state"], seen, strict=True):
        np.testing.assert_allclose(h[real], y[real], atol=1e-6)


def test_paths_of_stacked_and_bidirectional_layers():
    cells = [kerasseq.layers.LSTMCell(H), kerasseq.layers.GRUCell(H)]
    stacked = StackedRNN(cells, name="stacked", return_sequences=True)
    both = keras.layers.Bidirectional(LSTM(2, name="memory"), name="both")
    model = keras.Sequential(
        [keras.Input((T, D)), stacked, both, keras.layers.Dense(1)]
    )
    randomize(model)
    inside = traced(model)
    assert set(inside) == {
        f"{path}/{name}"
        for path, gates in {
            "stacked/layer_1": [
                "input_gate",
                "forget_gate",
                "output_gate",
                "cell_state",
            ],
            "stacked/layer_2": ["update_gate", "reset_gate"],
            "both/forward_memory": [
                *["input_gate", "forget_gate", "output_gate", "cell_state"]
            ],
            "both/backward_memory": [
                *["input_gate", "forget_gate", "output_gate", "cell_state"]
            ],
        }.items()
        for name in [*gates, "candidate", "hidden_state"]
    }
    lower = equations.over_time(equations.lstm, x, H, stacked.rnns[0].get_weights())
    assert_equal(inside, lower, "stacked/layer_1/")
    h = lower["hidden_state"]
    upper = equations.over_time(equations.gru, h, H, stacked.rnns[1].get_weights())
    assert_equal(inside, upper, "stacked/layer_2/")
    h = upper["hidden_state"]
    weights = both.get_weights()
    for path, own, backwards in [
        ("forward", weights[:3], 0),
        ("backward", weights[3:], 1),
    ]:
        expected = equations.over_time(equations.lstm, h, 2, own, backwards=backwards)
        assert_equal(inside, expected, f"both/{path}_memory/")


def test_masked_steps_keep_states_in_each_layer():
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(11, D, mask_zero=True),
            LSTM(H, return_sequences=True, name="first"),
            GRU(2, name="second"),
        ]
    )
    ids = np.array([[4, 7, 0, 1, 3, 0, 0], [0, 0, 2, 5, 9, 10, 1]])
    inside = traced(model, ids)
    for path in ("first", "second"):
        h = inside[f"{path}/hidden_state"]
        np.testing.assert_array_equal(h[1, :2], 0)
        np.testing.assert_array_equal(h[0, 2], h[0, 1])
        np.testing.assert_array_equal(h[0, 5:], h[0, [4, 4]])
        assert np.any(h[0, 3] != h[0, 2])
    gate = inside["first/forget_gate"]
    np.testing.assert_array_equal(
        gate == 0, np.repeat((ids == 0)[..., None], H, axis=-1)
    )


def test_layer_called_twice_has_a_list():
    shared = GRU(H, unroll=True, name="shared")
    first, second = keras.Input((T, D)), keras.Input((4, D))
    model = keras.Model([first, second], [shared(first), shared(second)])
    inside = traced(model, [x, x[:, :4]])
    shorter, longer = sorted(inside["shared/update_gate"], key=lambda value: value.size)
    assert (shorter.shape, longer.shape) == ((B, 4, H), (B, T, H))
    np.testing.assert_allclose(longer[:, :4], shorter, atol=1e-6)


def test_list_is_in_order_of_the_calls():
    shared = GRU(D, return_sequences=True, unroll=True, name="shared")
    inputs = keras.Input((T, D))
    model = keras.Model(inputs, shared(shared(inputs)))
    first, second = traced(model)["shared/hidden_state"]
    np.testing.assert_array_equal(first, array(shared(x)))
    np.testing.assert_array_equal(second, array(model(x)))


def test_paths_of_nested_models():
    inner = keras.Sequential(
        [keras.Input((T, D)), ElmanRNN(H, unroll=True, name="elman")], name="inner"
    )
    model = keras.Sequential([keras.Input((T, D)), inner, keras.layers.Dense(1)])
    assert list(traced(model)) == ["inner/elman/hidden_state"]


@pytest.mark.everywhere("eager calls and their order")
def test_loaded_model_can_be_traced(tmp_path):
    memory = LSTM(H, unroll=True, name="memory")
    both = keras.layers.Bidirectional(memory, name="both")
    model = keras.Sequential([keras.Input((T, D)), both])
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    before, after = traced(model), traced(loaded)
    assert list(before) == list(after)
    for key in before:
        np.testing.assert_array_equal(before[key], after[key])


def test_keras_cell_in_our_rnn_records_states():
    layer = kerasseq.layers.RNN(keras.layers.LSTMCell(H))
    layer.build(x.shape)
    randomize(layer)
    expected = equations.over_time(equations.lstm, x, H, layer.get_weights())
    inside = traced(layer)
    names = {"state_0": "hidden_state", "state_1": "cell_state"}
    assert_equal(inside, {new: expected[old] for new, old in names.items()})


def test_custom_layer_records_values():
    class Doubling(keras.layers.Layer):
        def call(self, inputs):
            return tracing.record(self, "doubled", 2 * inputs)

    layer = Doubling()
    np.testing.assert_array_equal(traced(layer)["doubled"], 2 * x)


def test_shape_inference_before_the_first_call_is_not_recorded():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.rnn = GRU(H, unroll=True, name="gru")

        def call(self, inputs):
            return self.rnn(inputs)

    for model in (Own(), keras.Sequential([GRU(H, unroll=True, name="gru")])):
        inside = traced(model)
        y = array(model(x))
        np.testing.assert_array_equal(inside["gru/hidden_state"][:, -1], y)


def test_record_returns_its_value():
    layer = keras.layers.Dense(3)
    value = keras.ops.convert_to_tensor(x)
    assert tracing.record(layer, "value", value) is value
    with tracing.trace(layer):
        assert tracing.record(layer, "value", value) is value
        assert tracing.record(layer, "not a tensor", "word") == "word"


def test_layers_outside_the_model_are_not_recorded():
    layer, other = LSTM(H), LSTM(H)
    with tracing.trace(layer) as inside:
        other(x)
    assert len(inside) == 0
    assert listeners.active() == ()


def small_model():
    model = keras.Sequential([keras.Input((T, D)), GRU(2, unroll=True, name="gru")])
    model.compile("sgd", "mse")
    return model


COMPILED = {
    "fit": lambda m: m.fit(x, x[:, 0, :2], verbose=0),
    "evaluate": lambda m: m.evaluate(x, x[:, 0, :2], verbose=0),
    "predict": lambda m: m.predict(x, verbose=0),
    "train_on_batch": lambda m: m.train_on_batch(x, x[:, 0, :2]),
    "test_on_batch": lambda m: m.test_on_batch(x, x[:, 0, :2]),
    "predict_on_batch": lambda m: m.predict_on_batch(x),
}


@pytest.mark.everywhere("eager calls and their order")
def test_compiled_calls_raise_inside_and_work_after():
    model = small_model()
    with tracing.trace(model):
        for name, call in COMPILED.items():
            with pytest.raises(
                RuntimeError, match=rf"^{name} runs.*call the model itself"
            ):
                call(model)
    with pytest.raises(ZeroDivisionError), tracing.trace(model):
        1 / 0  # noqa: B018
    assert not set(COMPILED) & set(vars(model))
    assert model.predict(x, verbose=0).shape == (B, 2)


def test_methods_are_restored_in_any_order_of_closing():
    model = small_model()
    own = model.predict = lambda *args: "own"
    first, second = tracing.trace(model), tracing.trace(model)
    first.__enter__()
    second.__enter__()
    with pytest.raises(RuntimeError, match="predict runs compiled code"):
        model.predict(x)
    first.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="predict runs compiled code"):
        model.predict(x)
    second.__exit__(None, None, None)
    assert model.predict is own and set(COMPILED) & set(vars(model)) == {"predict"}


def test_methods_set_inside_a_trace_stay():
    model = small_model()
    with tracing.trace(model):
        own = model.predict = lambda *args: "own"
    assert model.predict is own and set(COMPILED) & set(vars(model)) == {"predict"}


def test_other_threads_can_predict_and_close_traces_in_any_order():
    model = small_model()
    opened, closed, found = threading.Event(), threading.Event(), {}

    def work():
        with tracing.trace(model) as other:
            opened.set()
            closed.wait(60)
            model(x)
            try:
                model.predict(x)
            except RuntimeError as error:
                found["error"] = str(error)
        found["shapes"] = [value.shape for value in other.values()]
        found["after"] = model.predict(x, verbose=0).shape

    thread = threading.Thread(target=work)
    with tracing.trace(model) as inside:
        thread.start()
        assert opened.wait(60)
    assert model.predict(x, verbose=0).shape == (B, 2)  # while the other is open
    closed.set()
    thread.join(60)
    assert found["error"].startswith("predict runs compiled code")
    assert found["after"] == (B, 2) and (B, T, 2) in found["shapes"]
    assert len(inside) == 0  # values of another thread
    assert not set(COMPILED) & set(vars(model))


def test_tracing_changes_no_tracked_state():
    model = small_model()
    before = [w.path for w in model.weights], list(model._flatten_layers())
    with tracing.trace(model):
        assert model.count_params() == sum(np.size(w) for w in model.get_weights())
        inside = [w.path for w in model.weights], list(model._flatten_layers())
    assert inside == before
    assert ([w.path for w in model.weights], list(model._flatten_layers())) == before


def test_inner_trace_records_alone():
    model = small_model()
    with tracing.trace(model) as outer:
        with tracing.trace(model) as inner:
            model(x)
        with pytest.raises(RuntimeError, match="predict"):
            model.predict(x)
        model(x[:1])
    assert inner["gru/hidden_state"].shape == (B, T, 2)
    assert outer["gru/hidden_state"].shape == (1, T, 2)
    assert not set(COMPILED) & set(vars(model))


@pytest.mark.everywhere("eager calls and their order")
def test_compiled_functions_raise():
    layer = GRU(2)
    layer.build(x.shape)
    backend = keras.backend.backend()
    if backend == "torch":
        pytest.skip("needs a C++ compiler")
    if backend == "jax":
        jit = __import__("jax").jit
        compiled = jit(lambda a: layer(a))
    else:
        compiled = __import__("tensorflow").function(lambda a: layer(a))
    with (
        tracing.trace(layer),
        pytest.raises(RuntimeError, match="inside compiled code"),
    ):
        compiled(x)
    layer(x)


def test_our_cell_in_keras_rnn():
    layer = keras.layers.RNN(kerasseq.layers.GRUCell(2, name="gru_cell"))
    layer.build(x.shape)
    if keras.backend.backend() == "jax":  # its loop is compiled: no array can leave it
        with (
            tracing.trace(layer),
            pytest.raises(RuntimeError, match=r"kerasseq\.layers\.RNN takes the same"),
        ):
            layer(x)
        return
    # A value from each step; Keras may try the first one out before.
    h = traced(layer)["gru_cell/hidden_state"]
    assert [value.shape for value in h[-T:]] == [(B, 2)] * T
    np.testing.assert_array_equal(h[-1], array(layer(x)))


def test_messages_of_wrong_keys():
    inside = traced(small_model())
    with pytest.raises(KeyError, match='Did you mean "gru/update_gate"'):
        inside["gru/updategate"]
    with pytest.raises(KeyError, match=r"There is: gru/\w+, gru/\w+, gru/\w+, gru/\w+"):
        inside["zebra"]
    with tracing.trace(small_model()) as empty:
        pass
    with pytest.raises(KeyError, match="nothing was recorded"):
        empty["gru/update_gate"]
    assert "gru/update_gate: (2, 7, 2)" in repr(inside)


def test_training_records_values_after_dropout():
    layer = ElmanRNN(H, dropout=0.5, seed=0, unroll=True)
    layer.build(x.shape)
    randomize(layer)
    with tracing.trace(layer) as inside:
        layer(x, training=False)
        y = array(layer(x, training=True))
    without, dropped = inside["hidden_state"]
    assert np.abs(without - dropped).max() > 1e-3
    np.testing.assert_array_equal(dropped[:, -1], y)


@pytest.mark.everywhere("eager calls and their order")
def test_mixed_precision():
    layer = LSTM(H, dtype="mixed_bfloat16")
    inside = traced(layer)
    assert all(value.shape == (B, T, H) for value in inside.values())
    assert inside["forget_gate"].astype("float32").min() > 0


@pytest.mark.once("messages")
def test_a_value_or_a_picture_as_an_attribute():
    layer = kerasseq.layers.LSTM(3)
    with kerasseq.tracing.trace(layer) as inside:
        layer(np.ones((2, 7, 5)))
    with pytest.raises(AttributeError, match=r'keys: trace\["forget_gate"\]'):
        inside.forget_gate  # noqa: B018
    with pytest.raises(AttributeError, match="plots draws: plot_gates"):
        inside.plot()
    assert not hasattr(inside, "zebra")
    assert copy.copy(inside).keys() == inside.keys()
    with pytest.raises(TypeError, match=r"array, received Trace\..* trace\['forget_"):
        kerasseq.tracing.plots.plot_attention(inside)
