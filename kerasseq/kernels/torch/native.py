"""PyTorch's own recurrent kernels: oneDNN and plain loops on a CPU, cuDNN on a GPU."""

import warnings

import torch

from kerasseq.kernels import cudnn
from kerasseq.kernels.torch.product import on_intel

SMALL, LARGE = 2**16, 2**20  # recurrent weights
LONG = 256  # steps


def wanted(cell, mask) -> bool:
    """Whether PyTorch's kernel is there for this recurrence, and the fastest.

    Raises:
        ValueError: If cuDNN is asked for and cannot run it.
    """
    reason = cudnn.why_not(cell, mask, cudnn.BUILT_FOR["torch"])
    x = cell.inputs
    if cell.cudnn is True and not (reason is None and torch.cudnn_is_acceptable(x)):
        cudnn.refuse(reason or f"cuDNN does not run on {x.device} in {x.dtype}")
    if reason is not None or not x.shape[0] * x.shape[1]:
        return False
    if x.device.type == "cpu":
        return _faster_on_cpu(cell.equation.name, x, cell.weights["U"].numel())
    return cell.cudnn is not False


def _faster_on_cpu(name, x, weights):
    """Whether PyTorch's kernel is faster than ours, as measured on two cores."""
    if torch.is_grad_enabled():
        if len(x) > LONG:  # it is slow where gradients vanish, ours makes them 0
            return False
        if weights >= LARGE and on_intel():
            return False
    # oneDNN knows the LSTM in float32. PyTorch's loop over an Elman network is the
    # faster one while products are small; elsewhere ours is as fast or faster.
    if name == "lstm":
        return x.dtype == torch.float32
    return name == "elman" and weights < SMALL


def run(cell, states):
    """See `kerasseq.kernels.recurrence`."""
    equation, weights = cell.equation, cell.weights
    matrices = [cell.kernel, weights["U"]]
    biases = [cell.bias]
    if cell.bias is not None:
        biases.append(weights.get("b", torch.zeros_like(cell.bias)))
    if equation.name == "gru":  # Keras' order is z, r, h, PyTorch's r, z, h
        matrices, biases = (
            [None if w is None else cudnn.reset_first(w) for w in ws]
            for ws in (matrices, biases)
        )
    flat = [w.t().contiguous() for w in matrices]
    flat += [b for b in biases if b is not None]
    name = f"rnn_{equation.phi}" if equation.name == "elman" else equation.name
    hidden = [s[None].contiguous() for s in states]
    hidden = hidden if equation.name == "lstm" else hidden[0]
    training = torch.is_grad_enabled()
    with warnings.catch_warnings():
        # cuDNN would like all weights in one piece, which Keras' variables are not.
        warnings.filterwarnings("ignore", message="RNN module weights")
        path, *last = getattr(torch._VF, name)(
            cell.inputs, hidden, flat, len(flat) == 4, 1, 0.0, training, False, False
        )
    return path, [state[0] for state in last]
