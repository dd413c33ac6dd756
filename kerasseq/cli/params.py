"""`kerasseq params`: the table of language models, and the weights of one."""

import dataclasses
import json
import sys

from kerasseq.cli.console import Console
from kerasseq.cli.errors import UsageError
from kerasseq.cli.params_options import SIZES
from kerasseq.language.architectures import architectures, find
from kerasseq.language.counting import count

_KINDS = {"prefix_decoder": "prefix", "encoder_decoder": "enc-dec"}  # short ones


def run(args):
    """Run `kerasseq params`."""
    changes = {
        attribute: getattr(args, option)
        for option, (attribute, _) in SIZES.items()
        if getattr(args, option) is not None
    }
    if args.name is None:
        if changes or args.all:
            raise UsageError(
                "say of which model, as in  kerasseq params gpt3 --layers 12"
            )
        _list(args.json)
        return
    architecture = find(args.name).scaled(**changes) if changes else find(args.name)
    if args.json:
        _print_json(_as_dict(architecture))
    else:
        _show(Console(), architecture, args.all)


def _list(as_json):
    if as_json:
        _print_json([_summary(a) for a in architectures.values()])
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
    console.table("What they are made of", columns, rows)
    columns = ("model", ">layers", ">heads", ">width", ">published", ">counted")
    rows = [_sizes(a) for a in architectures.values()]
    console.table("Their sizes", (*columns, ">12·L·d²"), rows)
    console.say("The weights of one:  kerasseq params NAME")


def _sizes(a):
    return (
        a.name,
        a.num_layers,
        a.num_heads,
        f"{a.hidden_dim:,}",
        short(a.size),
        f"{count(a, what='all').total:,}",
        short(a.rule_of_thumb),
    )


def short(number: int) -> str:
    """A number in billions or millions, with four digits.

    Examples:
        >>> short(175_000_000_000), short(1_558_000_000), short(124_439_808)
        ('175B', '1.558B', '124.4M')
    """
    unit, letter = (10**9, "B") if number >= 10**9 else (10**6, "M")
    return f"{number / unit:.4g}{letter}"


def _number(value):
    return "—" if value is None else f"{value:,}"


def _show(console, a, every):
    console.say(f"{a.title}: {a.source}", style="bold")
    if a.note:
        console.say(a.note)
    matrices, whole = count(a), count(a, what="all")
    columns = ("matrix", ">shape", ">how many", ">weights", ">share")
    rows = [
        (
            part.name,
            " × ".join(map(str, part.shape)),
            f"{part.number:,}",
            *_weights(part.weights, matrices),
        )
        for part in matrices.parts
    ]
    console.table("Its matrices, each head by itself", columns, rows)
    console.say(f"{matrices.total:,} weights in {matrices.number:,} matrices")
    if every:
        console.say("\nAll its weights\n", style="bold")
        console.say(str(whole))
    else:
        rows = [(group, *_weights(n, whole)) for group, n in whole.groups.items()]
        columns = ("part", ">weights", ">share")
        console.table("All its weights, with biases and norms", columns, rows)
        console.say(f"{whole.total:,} weights in {whole.number:,} arrays")
    if a.size:
        off = whole.total / a.size - 1
        console.say(f"Published: {short(a.size)}; counted here: {off:+.2%}")


def _weights(number, counted):
    return f"{number:,}", f"{number / counted.total:.1%}"


def _summary(a):
    row = dataclasses.asdict(a)
    counts = {"counted": count(a, what="all").total, "rule_of_thumb": a.rule_of_thumb}
    return row | counts


def _as_dict(a):
    return {
        "architecture": dataclasses.asdict(a),
        **{
            what: {
                "total": counted.total,
                "number": counted.number,
                "groups": counted.groups,
                "parts": [p._asdict() | {"weights": p.weights} for p in counted.parts],
            }
            for what in ("matrices", "all")
            for counted in [count(a, what=what)]
        },
    }


def _print_json(found):
    json.dump(found, sys.stdout, indent=1, ensure_ascii=False)
    print()
