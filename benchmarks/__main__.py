"""Runs a benchmark: `python -m benchmarks tracing --backend torch --json`.

A benchmark is a module with a docstring that describes what it measures,
`add_arguments(parser)`, and `run(options)`, which returns a dictionary. Add new ones to
`BENCHMARKS`.
"""

import argparse
import importlib
import json
import os

BENCHMARKS = (
    "adaptation",
    "attention",
    "beyond",
    "bottleneck",
    "captioning",
    "counting",
    "ctc",
    "experts",
    "export",
    "exposure",
    "external",
    "fitting",
    "gpu",
    "linear",
    "lora",
    "memory",
    "modifications",
    "multimodal",
    "ngrams",
    "optimum",
    "own_data",
    "own_rows",
    "preferences",
    "prepare",
    "pretrained",
    "recurrent",
    "residuals",
    "roles",
    "scaling",
    "senses",
    "shakespeare",
    "sources",
    "sparse",
    "sparse_map",
    "speech",
    "speech_words",
    "stages",
    "text",
    "tracing",
    "training_memory",
    "transformer",
    "vectors",
    "wavenet",
)


def main():
    """Runs the benchmark that the command line names."""
    # The backend must be set before Keras is imported.
    early_parser = argparse.ArgumentParser(add_help=False)
    early_parser.add_argument("--backend", choices=["tensorflow", "jax", "torch"])
    backend = early_parser.parse_known_args()[0].backend
    if backend:
        os.environ["KERAS_BACKEND"] = backend

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    modules = {}
    for name in BENCHMARKS:
        module = modules[name] = importlib.import_module(f"benchmarks.{name}")
        command = commands.add_parser(
            name,
            help=module.__doc__.splitlines()[0],
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--backend", choices=["tensorflow", "jax", "torch"])
        command.add_argument("--json", action="store_true", help="print JSON")
        module.add_arguments(command)
    options = parser.parse_args()
    result = modules[options.benchmark].run(options)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    table = result.pop("table", None)
    for name, value in result.items():
        print(
            f"{name:>24}  {value:.3f}"
            if isinstance(value, float)
            else f"{name:>24}  {value}"
        )
    if table:
        print_table(table)


def print_table(table):
    """Prints rows, which are dictionaries with the same keys."""
    import rich.console
    import rich.table

    columns = rich.table.Table(*table[0])
    for row in table:
        columns.add_row(
            *(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values())
        )
    # At least 120 columns: files and pipes report 80, which would truncate the table.
    rich.console.Console(width=max(120, rich.console.Console().width)).print(columns)


if __name__ == "__main__":
    main()
