"""The equations of `RecurrentDecoder` in NumPy, step by step, row by row."""

import numpy as np

from tests.rnn import references as cells

STEPS = {"GRU": cells.gru(), "LSTM": cells.lstm(), "ElmanRNN": cells.elman}


def softmax(x):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def log_softmax(x):
    return np.log(softmax(np.asarray(x, "float64")))


def dense(layer, x):
    kernel, *bias = layer.get_weights()
    return x @ kernel + (bias[0] if bias else 0)


def attend(attention, query, memory, real):
    """Context and attention weights of one query and one memory."""
    w = {weight.name: np.asarray(value) for weight, value in
         zip(attention.weights, attention.get_weights(), strict=True)}  # fmt: skip
    if attention.score == "additive":
        e = [w["v"][:, 0] @ np.tanh(query @ w["W_q"] + h @ w["W_k"]) for h in memory]
    elif attention.score == "general":
        e = [query @ w["W"] @ h for h in memory]
    alpha = np.zeros(len(memory))
    alpha[real] = softmax(np.array(e)[real])
    return alpha @ memory, alpha


def run(decoder, target, memory, summary, real, use_target=None, choose=np.argmax):
    """Logits `(B, T, V)` and alignments `(B, T, S)` of a `RecurrentDecoder`.

    Args:
        decoder: The layer, for its weights and options.
        target: Ids, the inputs where `use_target`.
        memory: `(B, S, M)`.
        summary: `(B, N)`.
        real: `(B, S)`.
        use_target: `(B, T)`, whether the input is the target; always if None.
        choose: A function from logits to the predicted id.
    """
    if use_target is None:
        use_target = np.ones(target.shape, bool)
    rows = [
        run_row(
            decoder, target[b], memory[b], summary[b], real[b], use_target[b], choose
        )
        for b in range(len(target))
    ]
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


def run_row(decoder, target, memory, summary, real, use_target, choose):
    states = first_states(decoder, summary)
    output, predicted, logits, alignments = np.zeros(decoder.units), 1, [], []
    for token, is_target in zip(target, use_target, strict=True):
        y = decoder.embedding.get_weights()[0][token if is_target else predicted]
        c, alpha = summary, np.zeros(len(memory))
        if decoder.attends_before_step:
            c, alpha = attend(decoder.attention, states[-1][0], memory, real)
        after = decoder.attends_after_step
        x = [y] if after else [y, c]
        x = np.concatenate([*x, output] if decoder.input_feeding else x)
        for n, layer in enumerate(decoder.recurrent_layers):
            step = STEPS[type(layer).__name__]
            x, states[n] = step(layer.get_weights(), x, states[n])
        if after:
            c, alpha = attend(decoder.attention, x, memory, real)
        read = [x, c, y] if decoder.output_reads == "previous" else [x, c]
        output = o = np.tanh(dense(decoder.combine, np.concatenate(read)))
        logits.append(dense(decoder.logits, o))
        alignments.append(alpha)
        predicted = choose(logits[-1])
    return np.stack(logits), np.stack(alignments)


def first_states(decoder, summary):
    flat, states = np.tanh(dense(decoder.first_states, summary)), []
    for layer in decoder.recurrent_layers:
        count = 2 if type(layer).__name__ == "LSTM" else 1
        parts, flat = flat[: count * layer.units], flat[count * layer.units :]
        states.append(np.split(parts, count))
    return states
