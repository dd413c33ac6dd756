"""`kerasseq params --layer`: what the layers of an architecture cost."""

import argparse
import dataclasses
import re

from kerasseq.cli.console import Console, print_json
from kerasseq.cli.errors import UsageError
from kerasseq.core.checks import one_of
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


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq params --layer NAME`."""
    if args.name is not None or args.all or args.num_heads or args.vocabulary_size:
        raise UsageError(
            "--layer NAME takes --length, --units, --input-dim and --num-layers, and "
            "no name of a model, --all, --num-heads or --vocabulary-size. Did you mean "
            '"--layers"?'
        )
    one_of("--layer", args.layer, tuple(FORMULAS))
    found = costs(
        args.layer,
        args.max_sequence_length or LENGTH,
        args.hidden_dim or UNITS,
        input_dim=args.input_dim,
        num_layers=args.num_layers or 1,
    )
    if args.json:
        print_json(dataclasses.asdict(found))
    else:
        _show(Console(), found)


def _show(console: Console, found: LayerCosts) -> None:
    rows = [
        (title, _number(getattr(found, name)), what)
        for name, (title, what) in _ROWS.items()
    ]
    title = (
        f"{found.name}: T={found.sequence_length} steps, F={found.input_dim} features, "
        f"D={found.units} units, L={found.num_layers} layers"
    )
    console.table(title, ("", ">number", "what it counts"), rows)
    if found.path is None:
        console.write(
            f"The last output does not depend on the first input: an output sees "
            f"{found.reach:,} steps back."
        )
    if found.state_bytes is None:
        console.write("It cannot be causal, so that it keeps no state.")
    console.write("\nFormulas\n", style="bold")
    sizes = found.sequence_length, found.input_dim, found.units, found.num_layers
    values = letters(found.name, *sizes)
    for letter, meaning in _LETTERS.items():
        if any(re.search(rf"\b{letter}\b", f) for f in found.formulas.values()):
            console.write(f"{letter} = {values[letter]} {meaning}")
    for name, formula in found.formulas.items():
        console.write(f"{_ROWS[name][0]} = {formula}")


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
