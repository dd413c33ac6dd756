"""`kerasseq evaluate`: the scores of a classifier or a tagger on other data."""

import argparse
import os

from kerasseq.cli import classify, images, labeled, options, runs, tag
from kerasseq.cli.console import Console, choose_backend, print_json, status
from kerasseq.datasets import image_folder, read_tagged


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add(
        "evaluate",
        "evaluate a classifier or tagger on a file or a folder",
        """\
Print precision, recall and F1 of each class, for a file or a folder of images like that
of the training. A label that the training data do not have counts as an error.""",
        """\
examples:
  kerasseq evaluate runs/classify-gru-1 --file test.csv
  kerasseq evaluate runs/tag-lstm-1 --file test.conll
  kerasseq evaluate runs/images-vit-1 --file test-pictures""",
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
    if task not in TASKS:
        raise ValueError(
            "expected a run of  kerasseq train classify,  tag  or  images, received "
            f"{task} in {args.folder}"
        )
    console = Console(stderr=args.json)
    results = TASKS[task](args, record, console)
    console.write(f"Accuracy: {results['accuracy']:.3f}")
    if args.json:
        print_json(results)


def _load(args):
    choose_backend(args.backend)
    return runs.load_model(args.folder)[0]


def _tagger(args, record, console):
    tagged = read_tagged(args.file, encoding=args.encoding)
    results = tag.evaluate(_load(args), tagged)
    tag.show(console, results)
    return results


def _texts(args, record, console):
    arguments = record["arguments"] if record["arguments"]["file"] else {}
    names = {n: getattr(args, n) or arguments.get(n) for n in ("text", "label")}
    table = classify.read_text_table(args.file, args.encoding)
    texts, labels = classify.columns(table, options.Settings(**names), args.file)
    most = record["arguments"]["max_characters"]
    results = classify.evaluate(_load(args), [text[:most] for text in texts], labels)
    labeled.show_report(console, results, f"On {args.file}")
    labeled.show_hardest(console, results["hardest"])
    return results


def _images(args, record, console):
    with status(f"listing the images in {args.file}"):
        found = image_folder(args.file)
    names = [os.path.relpath(file, args.file) for file in found.files]
    results, _ = images.evaluate(_load(args), found.files, found.labels, names)
    labeled.show_report(console, results, f"On {args.file}")
    labeled.show_hardest(console, results["hardest"], "file")
    return results


TASKS = {"classify": _texts, "tag": _tagger, "images": _images}
