"""The layers of KerasHub's files that several of its models share, as rows."""

from kerasseq.pretrained.common import BLOCK
from kerasseq.pretrained.layouts import numbered


def weights(theirs, ours, kernel, bias, kernel_in_file=None, bias_in_file=None):
    """The kernel and the bias of a dense layer.

    Examples:
        >>> [row.theirs for row in weights("dense", "fc", "D F", "F")]
        ['dense/vars/0', 'dense/vars/1']
    """
    paths = [f"{ours}/kernel", f"{ours}/bias"]
    in_file = (kernel_in_file, bias_in_file)
    return numbered(theirs, paths, kernel, bias, file_axes=in_file)


def norm(theirs, ours):
    """Gamma and beta of a layer norm."""
    return numbered(theirs, [f"{ours}/gamma", f"{ours}/beta"], "D", "D")


def attention(theirs, ours):
    """The four projections of Keras' attention, with biases."""
    found = []
    for name in ("query", "key", "value"):
        found += weights(f"{theirs}/{name}_dense", f"{ours}/{name}", "D N K", "N K")
    output = f"{ours}/attention_output"
    return [*found, *weights(f"{theirs}/output_dense", output, "N K D", "D")]


def block(theirs):
    """A `TransformerEncoder`, or a `TransformerDecoder` without an encoder."""
    fed = f"{BLOCK}/feed_forward"
    return [
        *attention(f"{theirs}/_self_attention_layer", f"{BLOCK}/self_attention"),
        *norm(
            f"{theirs}/_self_attention_layer_norm", f"{BLOCK}/self_attention_layer_norm"
        ),
        *weights(
            f"{theirs}/_feedforward_intermediate_dense",
            f"{fed}/intermediate_dense",
            "D F",
            "F",
        ),
        *weights(
            f"{theirs}/_feedforward_output_dense", f"{fed}/output_dense", "F D", "D"
        ),
        *norm(f"{theirs}/_feedforward_layer_norm", f"{BLOCK}/feedforward_layer_norm"),
    ]
