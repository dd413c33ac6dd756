"""`kerasseq evaluate`: the scores of a classifier or a tagger on other data."""

import argparse

from kerasseq.cli import classify, labeled, options, runs, tag
from kerasseq.cli.console import Console, choose_backend, print_json
from kerasseq.datasets import read_tagged


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add(
        "evaluate",
        "evaluate a classifier or tagger on a file",
        """\
Print precision, recall and F1 of each class, for a file like that of the training. A
label that the training data do not have counts as an error.""",
        """\
examples:
  kerasseq evaluate runs/classify-gru-1 --file test.csv
  kerasseq evaluate runs/tag-lstm-1 --file test.conll""",
    )
    options.add_run(parser)
    parser.add_argument("--file", metavar="FILE", required=True, help="the data")
    help = "column of the texts (default: that of the training)"
    parser.add_argument("--text", metavar="COLUMN", help=help)
    help = "column of the labels (default: that of the training)"
    parser.add_argument("--label", metavar="COLUMN", help=help)
    options.add_encoding(parser)
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq evaluate`."""
    _, record = runs.find_model(args.folder)
    task = (record or {}).get("task")
    if task not in ("classify", "tag"):
        raise ValueError(
            f"expected a run of  kerasseq train classify  or  tag, received {task} in "
            f"{args.folder}"
        )
    console = Console(stderr=args.json)
    if task == "tag":
        tagged = read_tagged(args.file, encoding=args.encoding)
    else:
        arguments = record["arguments"] if record["arguments"]["file"] else {}
        names = {n: getattr(args, n) or arguments.get(n) for n in ("text", "label")}
        table = classify.read_text_table(args.file, args.encoding)
        texts, labels = classify.columns(table, options.Settings(**names), args.file)
    choose_backend(args.backend)
    model, _ = runs.load_model(args.folder)
    if task == "tag":
        results = tag.evaluate(model, tagged)
        tag.show(console, results)
    else:
        most = record["arguments"]["max_characters"]
        results = classify.evaluate(model, [text[:most] for text in texts], labels)
        labeled.show_report(console, results, f"On {args.file}")
        labeled.show_hardest(console, results["hardest"])
    console.write(f"Accuracy: {results['accuracy']:.3f}")
    if args.json:
        print_json(results)
