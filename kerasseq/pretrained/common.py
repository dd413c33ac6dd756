"""What several families have in common."""

from kerasseq.pretrained.family import differing
from kerasseq.pretrained.layouts import dense

ACTIVATIONS = {  # by their names; of two the first is written
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
WORDS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "DoubleHeadsModel")
BLOCK = "block_{n}"
LAYER = "encoder.layer.{n}"
HUB_HEAD = "task/layers/dense"
HUB_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "max_sequence_length",
)


def block_sizes(a):
    """What the letters stand for that all blocks have.

    Examples:
        >>> block_sizes({"hidden_dim": 12, "num_heads": 3, "intermediate_dim": None})
        {'D': 12, 'N': 3, 'K': 4, 'F': 48}
    """
    return {
        "D": a["hidden_dim"],
        "N": a["num_heads"],
        "K": a.get("head_dim") or a["hidden_dim"] // a["num_heads"],
        "F": a["intermediate_dim"] or 4 * a["hidden_dim"],
    }


def misfit(a, fixed):
    """What keeps a model from having one key for each query, and `fixed` options."""
    for name, right in (
        ("num_key_value_heads", a["num_heads"]),
        ("head_dim", a["hidden_dim"] // a["num_heads"]),
    ):
        if a[name] not in (None, right):
            return f"{name}={a[name]} instead of {right}"
    if a["feed_forward"] not in WORDS:
        return f"feed_forward={a['feed_forward']!r}"
    return differing(a, fixed)


def with_biases(a):
    """The arguments, in which it is said whether queries, keys and values have biases.

    Examples:
        >>> a = {"use_bias": True, "use_query_key_value_bias": None}
        >>> with_biases(a)["use_query_key_value_bias"]
        True
    """
    bias = a["use_query_key_value_bias"]
    return {**a, "use_query_key_value_bias": a["use_bias"] if bias is None else bias}


def architecture(settings):
    """The class that a folder of Hugging Face names first; "" if it names none."""
    names = settings.get("architectures", [])
    return str(names[0]) if isinstance(names, list) and names else ""


def gpt_head(settings, shapes, tied):
    """The head of a `GPT`: "tokens", or None if the folder has only what is below it.

    Args:
        settings: The `Settings`.
        shapes: Of the tensors by name.
        tied: Whether the table of the embedding gives the logits.
    """
    name = architecture(settings) or LANGUAGE_MODELS[0]
    if tied or "lm_head.weight" in shapes or name.endswith(LANGUAGE_MODELS):
        return "tokens"
    return None


def head_of_trunk(shapes):
    """The head of a `BERT` without a task: "sequence" if the file has no pooler.

    Examples:
        >>> print(head_of_trunk({"pooler.dense.weight": (3, 3)}))
        None
    """
    return None if any(name.startswith("pooler.") for name in shapes) else "sequence"


def classes(shapes, name, axis=0):
    """How many classes a head has, whose kernel is of that name; None without one.

    Examples:
        >>> classes({"classifier.weight": (3, 12)}, "classifier.weight")
        3
    """
    shape = shapes.get(name)
    if shape is None:
        return None
    return shape[axis] if len(shape) == 2 else 1  # and is refused with the others


def labels(a):
    """The names of classes, for those who have none.

    Examples:
        >>> labels({"num_classes": 1})
        {'id2label': {'0': 'LABEL_0'}, 'label2id': {'LABEL_0': 0}}
        >>> labels({"num_classes": None})
        {}
    """
    names = [f"LABEL_{n}" for n in range(a["num_classes"] or 0)]
    if not names:
        return {}
    return {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
    }


def encoder_layer(attention):
    """The rows of the dense layers of an encoder of Hugging Face.

    Args:
        attention: Where queries, keys and values stand.
    """
    ours, fed = f"{BLOCK}/self_attention", f"{BLOCK}/feed_forward"
    found = []
    for name in ("query", "key", "value"):
        found += dense(f"{LAYER}.{attention}.{name}", f"{ours}/{name}", "D", "N K")
    output = f"{ours}/attention_output"
    found += dense(f"{LAYER}.attention.output.dense", output, "N K", "D")
    found += dense(f"{LAYER}.intermediate.dense", f"{fed}/intermediate_dense", *"DF")
    return found + dense(f"{LAYER}.output.dense", f"{fed}/output_dense", *"FD")
