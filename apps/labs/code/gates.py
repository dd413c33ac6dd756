"""What the lab Gates computes. The page shows these functions as its code."""

import numpy as np


def load(folder, change):
    """Returns a trained model and its recurrent layer."""
    import keras

    import kerasseq

    model = kerasseq.load_model(f"{folder}/model.keras")
    (layer,) = [x for x in model.layers if isinstance(x, kerasseq.layers.RNN)]
    if change and change["gate"] == "peepholes":  # without them
        weights = keras.ops.convert_to_numpy(layer.cell.peephole_kernel).copy()
        units = change["units"]
        weights[:, slice(None) if units is None else units] = 0.0
        layer.cell.peephole_kernel.assign(weights)
    return model, layer


def forced(layer, change, steps=None):
    """Returns the replacements for `tracing.intervene`, in all steps or in some."""
    from kerasseq import tracing

    if change is None or change["gate"] == "peepholes":
        return {}
    value = tracing.at(change["value"], units=change["units"], steps=steps)
    return {f"{layer.name}/{change['gate']}": value}


def named(layer, trace):
    """Returns the values of a trace by name, and what the peepholes add to the gates."""
    import keras

    found = {key.partition("/")[2]: np.asarray(value) for key, value in trace.items()}
    if getattr(layer.cell, "peephole", None) == "diagonal":
        p_i, p_f, p_o = keras.ops.convert_to_numpy(layer.cell.peephole_kernel)
        c = found["cell_state"]
        before = np.concatenate([np.zeros_like(c[:, :1]), c[:, :-1]], axis=1)
        found["peephole_input"] = p_i * before
        found["peephole_forget"] = p_f * before
        found["peephole_output"] = p_o * c
    return {name: value[-1] for name, value in found.items()}  # (time, units)


def read(folder, string, change=None):
    """Returns P(balanced) after each symbol of a string, and all values inside."""
    import keras

    from kerasseq import tracing

    model, layer = load(folder, change)
    ids = ["_()".index(symbol) for symbol in string]  # 0 is padding
    beginnings = np.tril(np.tile(np.array(ids, "int32"), (len(ids), 1)))
    steps = change and slice(change["first"] - 1, change["last"])
    with (
        tracing.intervene(model, forced(layer, change, steps)),
        tracing.trace(model) as trace,
    ):
        logits = model(beginnings)
    p = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[:, 1]
    return {"pieces": list(string), "p": p, "values": named(layer, trace)}


def write(folder, prompt, change=None, length=80, temperature=0.5, seed=0):
    """Continues a text. Returns it, the probabilities of its characters, all values."""
    import keras

    from kerasseq import tracing

    model, layer = load(folder, change)
    ids, p, traces = model.ids(prompt).tolist(), [np.nan], []
    total = len(ids) + length
    # The same random numbers with and without a change: only the network differs.
    noise = np.random.default_rng(seed).gumbel(size=(total, model.vocabulary_size))
    state, _ = model.start([ids[:1]], 1)
    for t in range(total):
        inside = change and change["first"] - 1 <= t < change["last"]
        changes = forced(layer, change if inside else None)
        with tracing.intervene(model, changes), tracing.trace(model) as trace:
            logits, state = model.step(state, np.array([ids[t]], "int32"))
        traces.append(dict(trace))
        log_p = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits))[0]
        if len(ids) < total:
            scores = log_p + noise[t] * temperature
            ids += [int(scores.argmax())] if t + 1 == len(ids) else []
        p += [float(np.exp(log_p[ids[t + 1]]))] if t + 1 < total else []
    trace = {key: np.concatenate([x[key] for x in traces], 1) for key in traces[0]}
    pieces = [*prompt, *model.tokenizer.decode(ids[len(prompt) :])]
    return {"pieces": pieces, "p": np.array(p), "values": named(layer, trace)}
