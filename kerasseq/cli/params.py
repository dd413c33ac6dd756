"""`kerasseq params`: published language models, and the parameters of one.

Count the parameters of a published model without building it: first its matrices, per
head and with embedding and unembedding, as in the course; then all parameters, with
biases, norms and positions, and a tied embedding once. Without a name, list the
models. With --layer, count what the layers of an architecture cost: parameters,
operations, and how many steps follow one another.

Examples:
  kerasseq params
  kerasseq params gpt3
  kerasseq params bert_base --all
  kerasseq params gpt3 --num-layers 12 --hidden-size 768 --num-heads 12
  kerasseq params --layer lstm
  kerasseq params --layer transformer --length 2000 --units 256
"""

import argparse
import dataclasses
import re

from kerasseq.cli import options
from kerasseq.cli.console import Console, print_json
from kerasseq.cli.errors import UsageError
from kerasseq.core.checks import one_of
from kerasseq.published.architectures import architectures, find
from kerasseq.published.counting import count
from kerasseq.published.layer_costs import LayerCosts, costs
from kerasseq.published.layer_formulas import FORMULAS, letters

LENGTH, UNITS = 1000, 512  # the sizes of the examples of the page
_ROWS = {  # attribute: title, and what it counts
    "parameters": ("parameters", "weights of the layers"),
    "forward_flops": ("operations", "of the forward pass over a sequence"),
    "sequential_steps": ("sequential steps", "before the last state is known"),
    "path": ("path", "steps from the first input to the last output"),
    "state_bytes": ("state", "bytes that generation keeps after all steps"),
}
_LETTERS = {"N": "heads", "H": "numbers of a head", "W": "steps of the window"}

SIZES = {  # attributes of an architecture: their options, and their help
    "num_layers": ("--num-layers --layers", "layers; of each stack, if two"),
    "hidden_dim": ("--hidden-size --width --units", "hidden size; others follow it"),
    "num_heads": ("--num-heads --heads", "attention heads"),
    "vocabulary_size": ("--vocabulary-size --vocab-size", "tokens in the vocabulary"),
    "max_sequence_length": ("--max-sequence-length --length", "tokens in a sequence"),
}
_KINDS = {"prefix_decoder": "prefix", "encoder_decoder": "enc-dec"}  # abbreviations


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("params")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the model to count")
    parser.add_argument(
        "--all", action="store_true", help="print each weight with its shape"
    )
    parser.add_argument(
        "--layer",
        metavar="NAME",
        help="count layers by the name of their architecture, such as lstm, mamba or "
        f"transformer; of {LENGTH} steps and {UNITS} units, "
        "unless --length and --units say otherwise",
    )
    parser.add_argument(
        "--input-dim",
        type=options.integer(),
        metavar="N",
        help="features of the inputs of --layer; the units by default",
    )
    group = parser.add_argument_group("other sizes")
    for attribute, (names, what) in SIZES.items():
        kind = {"type": options.integer(), "metavar": "N", "help": what}
        group.add_argument(*names.split(), dest=attribute, **kind)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq params`."""
    changes = {
        attribute: getattr(args, attribute)
        for attribute in SIZES
        if getattr(args, attribute) is not None
    }
    if args.layer is not None:
        show_layer(args)
        return
    if args.input_dim is not None:
        raise UsageError("--input-dim is for --layer")
    if args.name is None:
        if changes or args.all:
            raise UsageError(
                "expected the name of a model, as in  kerasseq params gpt3 "
                "--num-layers 12"
            )
        _list(args.json)
        return
    architecture = find(args.name).scaled(**changes) if changes else find(args.name)
    if args.json:
        print_json(_as_dict(architecture))
    else:
        _show(Console(), architecture, args.all)


def _list(as_json):
    if as_json:
        print_json([_summary(a) for a in architectures.values()])
        return
    console = Console()
    columns = ("model", "kind", "norm", "positions", "activation", "bias", ">length")
    rows = [
        (
            a.name,
            _KINDS.get(a.kind, a.kind),
            f"{a.norm_placement} {a.norm}",
            "relative xl" if a.position == "transformer_xl" else a.position,
            a.feed_forward,
            "yes" if a.use_bias else "no",
            _number(a.max_sequence_length),
        )
        for a in architectures.values()
    ]
    console.table("Architectures", columns, rows)
    columns = ("model", ">layers", ">heads", ">hidden", ">published", ">counted")
    rows = [_sizes(a) for a in architectures.values()]
    console.table("Sizes", (*columns, ">12·L·d²"), rows)
    console.write("The parameters of one:  kerasseq params NAME")


def _sizes(a):
    return (
        a.name,
        a.num_layers,
        a.num_heads if a.attention == "multi_head" else "–",
        f"{a.hidden_dim:,}",
        short(a.size),
        f"{count(a, what='all').total:,}",
        short(a.rule_of_thumb),
    )


def short(number: int) -> str:
    """Formats a number in billions or millions, with four digits.

    Examples:
        >>> short(175_000_000_000), short(1_558_000_000), short(124_439_808)
        ('175B', '1.558B', '124.4M')
    """
    unit, letter = (10**9, "B") if number >= 10**9 else (10**6, "M")
    return f"{number / unit:.4g}{letter}"


def _number(value, absent="—"):
    return absent if value is None else f"{value:,}"


def _show(console, a, every):
    console.write(f"{a.title}: {a.source}", style="bold")
    if a.note:
        console.write(a.note)
    matrices, whole = count(a), count(a, what="all")
    columns = ("matrix", ">shape", ">number", ">parameters", ">share")
    rows = [
        (
            part.name,
            " × ".join(map(str, part.shape)),
            f"{part.number:,}",
            *_cells(part.weights, matrices),
        )
        for part in matrices.parts
    ]
    console.table("Matrices, per head", columns, rows)
    console.write(f"{matrices.total:,} parameters in {matrices.number:,} matrices")
    if every:
        console.write("\nAll weights\n", style="bold")
        console.write(str(whole))
    else:
        rows = [(group, *_cells(n, whole)) for group, n in whole.groups.items()]
        columns = ("part", ">parameters", ">share")
        console.table("All parameters, with biases and norms", columns, rows)
        console.write(f"{whole.total:,} parameters in {whole.number:,} weights")
    if whole.active < whole.total:
        chosen = f"{a.top_k} of {a.num_experts} experts in each layer"
        console.write(f"A token uses {whole.active:,} of them: {chosen}")
    if a.size:
        off = whole.total / a.size - 1
        console.write(f"Published: {short(a.size)}; counted here: {off:+.2%}")


def _cells(number, counted):
    return f"{number:,}", f"{number / counted.total:.1%}"


def _summary(a):
    row = dataclasses.asdict(a)
    whole = count(a, what="all")
    counts = {"counted": whole.total, "active": whole.active}
    return row | counts | {"rule_of_thumb": a.rule_of_thumb}


def _as_dict(a):
    return {
        "architecture": dataclasses.asdict(a),
        **{
            what: {
                "total": counted.total,
                "active": counted.active,
                "number": counted.number,
                "groups": counted.groups,
                "parts": [
                    p._asdict() | {"weights": p.weights, "active": p.active}
                    for p in counted.parts
                ],
            }
            for what in ("matrices", "all")
            for counted in [count(a, what=what)]
        },
    }


# Layers


def show_layer(args: argparse.Namespace) -> None:
    """Runs `kerasseq params --layer NAME`: what the layers of an architecture cost."""
    if args.name is not None or args.all or args.num_heads or args.vocabulary_size:
        raise UsageError(
            "--layer NAME takes --length, --units, --input-dim and --num-layers, and "
            "no name of a model, --all, --num-heads or --vocabulary-size. Did you mean "
            '"--layers"?'
        )
    one_of("--layer", args.layer, tuple(FORMULAS))
    of_layer = costs(
        args.layer,
        args.max_sequence_length or LENGTH,
        args.hidden_dim or UNITS,
        input_dim=args.input_dim,
        num_layers=args.num_layers or 1,
    )
    if args.json:
        print_json(dataclasses.asdict(of_layer))
    else:
        _show_costs(Console(), of_layer)


def _show_costs(console: Console, of_layer: LayerCosts) -> None:
    rows = [
        (title, _number(getattr(of_layer, name), "–"), what)
        for name, (title, what) in _ROWS.items()
    ]
    T, F = of_layer.sequence_length, of_layer.input_dim
    D, L = of_layer.units, of_layer.num_layers
    title = f"{of_layer.name}: T={T} steps, F={F} features, D={D} units, L={L} layers"
    console.table(title, ("", ">number", "what it counts"), rows)
    if of_layer.path is None:
        console.write(
            f"The last output does not depend on the first input: an output sees "
            f"{of_layer.reach:,} steps back."
        )
    if of_layer.state_bytes is None:
        console.write("It cannot be causal, so that it keeps no state.")
    console.write("\nFormulas\n", style="bold")
    values = letters(of_layer.name, T, F, D, L)
    for letter, meaning in _LETTERS.items():
        if any(re.search(rf"\b{letter}\b", f) for f in of_layer.formulas.values()):
            console.write(f"{letter} = {values[letter]} {meaning}")
    for name, formula in of_layer.formulas.items():
        console.write(f"{_ROWS[name][0]} = {formula}")
