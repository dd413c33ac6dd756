"""The command `kerasseq params` as it can be typed. Loads no Keras."""

from kerasseq.cli import names

SIZES = {  # options that change an architecture, and what they change
    "layers": ("num_layers", "layers; of each stack, if there are two"),
    "width": (
        "hidden_dim",
        "width between the layers; the others keep their proportion",
    ),
    "heads": ("num_heads", "heads of attention"),
    "vocabulary_size": ("vocabulary_size", "tokens"),
    "length": ("max_sequence_length", "tokens at a time"),
}


def command(add):
    """Add the command by `add` of the parser, and its options."""
    made = add(
        "params",
        "params",
        "count the weights of GPT-3 and its like",
        """\
Count the weights of a published model without building it: first its matrices, as the
course counts them, per head and with embedding and unembedding both; then all weights,
with biases, norms and positions, and a tied embedding once. Without a name, list the
models.""",
        """\
examples:
  kerasseq params
  kerasseq params gpt3
  kerasseq params bert_base --all
  kerasseq params gpt3 --layers 12 --width 768 --heads 12""",
    )
    made.add_argument("name", nargs="?", metavar="NAME", help="the model to count")
    made.add_argument(
        "--all", action="store_true", help="show each of all the weights with its shape"
    )
    sizes = made.add_argument_group("sizes of your own")
    for option, (_, what) in SIZES.items():
        flag = f"--{option.replace('_', '-')}"
        sizes.add_argument(flag, type=names.whole(), metavar="N", help=what)
    made.add_argument("--json", action="store_true", help="print JSON")
