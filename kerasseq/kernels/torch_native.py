"""PyTorch's own recurrent kernels: oneDNN and plain loops on a CPU, cuDNN on a GPU."""

import warnings

import torch

SMALL = 2**16  # recurrent weights


def why_not(cell, mask) -> str | None:
    """Why PyTorch's kernels do not compute this recurrence; None if they do."""
    equation = cell.equation
    plain = equation.peephole is None and not equation.coupled
    names = (equation.sigma, equation.phi)
    if equation.name == "elman":
        fits = equation.phi in ("tanh", "relu")
    elif equation.name == "gru":
        fits = equation.reset_after and equation.update == "keep"
    else:
        fits = equation.name == "lstm" and plain
    if not fits or (equation.name != "elman" and names != ("sigmoid", "tanh")):
        return "its equation is not PyTorch's"
    if mask is not None:
        return "there is a mask"
    if cell.weights.get("dropout") is not None or cell.kernel is None:
        return "recurrent_dropout is on"
    return None


def wanted(cell, mask) -> bool:
    """Whether PyTorch's kernel is there for this recurrence, and the fastest.

    Raises:
        ValueError: If cuDNN is asked for and cannot run it.
    """
    reason = why_not(cell, mask)
    x = cell.inputs
    if cell.cudnn is True and not (reason is None and torch.cudnn_is_acceptable(x)):
        reason = reason or f"cuDNN does not run on {x.device} in {x.dtype}"
        raise ValueError(
            f'use_cudnn=True cannot be met: {reason}. "auto" runs anywhere'
        )
    if reason is not None or not x.shape[0] * x.shape[1]:
        return False
    if x.device.type == "cpu":
        # oneDNN knows the LSTM in float32. PyTorch's loop over an Elman network is the
        # faster one while products are small; elsewhere ours is as fast or faster.
        small = cell.weights["U"].numel() < SMALL and cell.equation.name == "elman"
        return small or (cell.equation.name == "lstm" and x.dtype == torch.float32)
    return cell.cudnn is not False


def run(cell, states):
    """See `kerasseq.kernels.recurrence`."""
    equation, weights = cell.equation, cell.weights
    matrices = [cell.kernel, weights["U"]]
    biases = [cell.bias]
    if cell.bias is not None:
        biases.append(weights.get("b", torch.zeros_like(cell.bias)))
    if equation.name == "gru":  # Keras' order is z, r, h, PyTorch's r, z, h
        matrices, biases = (
            [None if w is None else _swap(w) for w in ws] for ws in (matrices, biases)
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


def _swap(w):
    z, r, h = w.chunk(3, -1)
    return torch.cat([r, z, h], -1)
