"""All steps of a decoder over a target that is known, as training needs them."""

import functools

from keras import ops, tree

from kerasseq import kernels
from kerasseq.core.padding import START
from kerasseq.seq2seq import cells as cell_tools
from kerasseq.seq2seq import looking
from kerasseq.tasks.architectures import first_output
from kerasseq.tracing import recording


def at_once(decoder, x, state, training):
    """Where no step waits for the one before, all steps of each layer in one.

    Args:
        decoder: The `RecurrentDecoder`.
        x: Vectors of what is read, `(B, T, E)`.
        state: As `decoder.begin` gives it.
        training: Whether layers drop.

    Returns:
        $o_t$ of all steps, `(B, T, H)`, and the alignment `(B, T, S)` or None.
    """
    source, alpha = state["source"], None
    if decoder.attention is None:
        c = ops.repeat(source["summary"][:, None], ops.shape(x)[1], axis=1)
        x = ops.concatenate([x, c], axis=-1)
    for layer, states in zip(decoder.recurrent, state["cells"], strict=True):
        x = first_output(layer(x, initial_state=states, training=training))
    if decoder.attention is not None:
        c, alpha = decoder.attend(x, source, training)
    return decoder.combine(ops.concatenate([x, c], axis=-1)), alpha


def in_turn(decoder, target, y, state, training):
    """The same, step by step.

    Args:
        decoder: The `RecurrentDecoder`.
        target: Ids that are read if the truth is, `(B, T)`.
        y: Their vectors, `(B, T, E)`.
        state: As `decoder.begin` gives it.
        training: Whether cells drop, and what the decoder says is fed back.

    Returns:
        As `at_once`.
    """
    listener = recording.current_listener()
    carry = {name: x for name, x in state.items() if name != "source"}
    now = {"y": y, **looking.probes(decoder, listener)}
    if training and decoder.feeding.schedule is not None:
        now |= decoder.feeding.decide(target, decoder.vocabulary_size)
        # Of what is said as much is dropped as of the truth.
        now["kept"] = decoder.drop(ops.ones_like(y), training=training)
        carry["said"] = ops.full_like(target[:, 0], START)
    now = tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), now)  # (T, B, ...)
    step = functools.partial(one_step, decoder, state["source"], training)
    inside = {}
    with cell_tools.drawn_before(decoder.recurrent, y, training), recording.pause():
        _, seen = kernels.scan(step, carry, now)
        if isinstance(listener, recording.Trace):
            inside = looking.watch(decoder, step, carry, now)
    looking.show(decoder, inside)
    seen = {name: ops.swapaxes(x, 0, 1) for name, x in seen.items()}
    if "o" not in seen:  # nobody needed it on the way: all of them at once
        both = ops.concatenate([seen["s"], seen["c"]], axis=-1)
        seen["o"] = decoder.combine(both)
    return seen["o"], seen.get("alpha")


def one_step(decoder, source, training, carry, now):
    """One turn of the loop: what is carried on, and what is seen of it."""
    y = now["y"]
    if "said" in carry:
        said = decoder.embedding.call(carry["said"]) * now["kept"]
        y = ops.where(now["true"][:, None], y, said)
    state = {**carry, "source": source}
    with looking.probed(decoder, now):
        s, c, alpha, cells = decoder.advance(y, state, training)
    after, seen = {"cells": cells}, {"s": s, "c": c}
    if alpha is not None:
        seen["alpha"] = alpha
    if carry.keys() != after.keys():  # the next step asks what this one came to
        o = seen["o"] = decoder.combine.call(ops.concatenate([s, c], axis=-1))
    if "fed" in carry:
        after["fed"] = o
    if "said" in carry:
        said = decoder.feeding.say(decoder.logits(o), now.get("noise"))
        after["said"] = ops.cast(said, carry["said"].dtype)
    return after, seen
