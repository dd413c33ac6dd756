"""What the lab Gates computes. The page shows these functions as its code."""

import inspect

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
    """Returns the replacements for `tracing.intervene`."""
    from kerasseq import tracing

    if change is None or change["gate"] == "peepholes":
        return {}
    value = tracing.at(change["value"], units=change["units"], steps=steps)
    return {f"{layer.name}/{change['gate']}": value}


def named(layer, values):
    """Returns values `(T, units)` by name, and what the peepholes add to each gate."""
    import keras

    found = {key.partition("/")[2]: value for key, value in values.items()}
    if getattr(layer.cell, "peephole", None) == "diagonal":
        p_i, p_f, p_o = keras.ops.convert_to_numpy(layer.cell.peephole_kernel)
        c = found["cell_state"]
        before = np.concatenate([np.zeros_like(c[:1]), c[:-1]])
        found["peephole_input"] = p_i * before
        found["peephole_forget"] = p_f * before
        found["peephole_output"] = p_o * c
    return found


def explain(folder):
    """Returns a step of the trained network, and its gradients, as LaTeX."""
    _, layer = load(folder, None)
    found = layer.explain()
    return {part: found.latex(part) for part in ("forward", "backward")}


def read(folder, string, change=None):
    """Reads a string. Returns P(balanced) after each symbol, and the values inside."""
    from kerasseq import tracing

    model, layer = load(folder, change)
    ids = np.array(["_()".index(symbol) for symbol in string])  # 0 is padding
    steps = change and slice(change["first"] - 1, change["last"])
    with tracing.intervene(model, forced(layer, change, steps)):
        found = model.step_by_step(ids)
    p, values = found.probabilities[:, 1], named(layer, found.values)
    return {"pieces": list(string), "p": p, "values": values}


def write(folder, prompt, change=None, length=80, temperature=0.5, seed=0):
    """Continues a text. Returns it, P(each character), and the values inside."""
    import keras

    from kerasseq import tracing

    model, layer = load(folder, change)
    ids, p, traces = model.ids(prompt).tolist(), [np.nan], []
    total = len(ids) + length
    # The same random numbers with and without a change: only the network differs.
    noise = np.random.default_rng(seed).gumbel(size=(total, model.vocabulary_size))
    state = {"states": [layer.get_initial_state(1)]}
    for t in range(total):
        inside = change and change["first"] - 1 <= t < change["last"]
        changes = forced(layer, change if inside else None)
        with tracing.intervene(model, changes), tracing.trace(model) as trace:
            logits, state = model.step(state, np.array([ids[t]], "int32"))
        traces.append({key: value[0] for key, value in trace.items()})
        log_p = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits))[0]
        if t + 1 == len(ids) < total:
            ids.append(int((log_p + noise[t] * temperature).argmax()))
        if t + 1 < total:
            p.append(float(np.exp(log_p[ids[t + 1]])))
    values = {key: np.concatenate([x[key] for x in traces]) for key in traces[0]}
    pieces = [*prompt, *model.tokenizer.decode(ids[len(prompt) :])]
    return {"pieces": pieces, "p": np.array(p), "values": named(layer, values)}


# Placeholders are filled by the page.
HEAD = """
import numpy as np
"""
CALLS = {
    "race": "read(folder, {string}%s)",
    "text": "write(folder, {prompt}%s, length={length}, "
    "temperature={temperature}, seed={seed})",
}
TAIL = """
for found in (before, after):
    print("".join(found["pieces"]))
    print("P:", found["p"].round(3))
name = "cell_state" if "cell_state" in before["values"] else "hidden_state"
print("The", name, "of each unit at the end, after minus before:")
print((after["values"][name][-1] - before["values"][name][-1]).round(3))

_, layer = load(folder, None)
print(layer.explain())  # the equations and their gradients
"""


def source(task):
    """Returns the code of the page, as a template."""
    used = (load, forced, named, read if task == "race" else write)
    functions = "\n\n".join(inspect.getsource(function) for function in used)
    before = "before = " + CALLS[task] % ""
    after = "after = " + CALLS[task] % ", change={change}"
    return (
        f"{HEAD}\n\n{functions}\n\nfolder = {{model_folder}}\n{before}\n{after}{TAIL}"
    )
