"""`kerasseq evaluate`: the scores of a classifier or a tagger on other data.

Print precision, recall and F1 of each class, for a file or a folder of images like that
of the training. A label that the training data do not have counts as an error. If the
model was trained on some of the rows, a sentence says on how many. For a run of
preferences the file has votes, and the accuracy is the share of those whose chosen
answer is the more probable one, or has the larger reward. For a run of conversations it
is the share of right answers to the last question of each. For a run of speech the
folder has WAV files and their texts, and the scores are the shares of characters and
words that are wrong; without --file they are those of the sounds that were held out.

Examples:
  kerasseq evaluate runs/classify-gru-1 --file test.csv
  kerasseq evaluate runs/tag-lstm-1 --file test.conll
  kerasseq evaluate runs/images-vit-1 --file test-pictures
  kerasseq evaluate runs/preferences-dpo-1 --file other-votes.jsonl
  kerasseq evaluate runs/conversations-1 --file questions.jsonl
  kerasseq evaluate runs/speech-conformer-1 --file other-recordings
"""

import argparse
import os
from typing import Any

from kerasseq.cli import (
    chat,
    classify,
    conversations,
    image_data,
    images,
    labeled,
    options,
    preference_data,
    runs,
    speech,
    speech_data,
    tag,
    text_tables,
)
from kerasseq.cli.commands import add_rows, add_shared
from kerasseq.cli.console import Console, choose_backend, print_json, status
from kerasseq.cli.errors import UsageError, given, refuse
from kerasseq.cli.run import repeated_rows
from kerasseq.datasets.conversation_files import conversation_rows

BATCH_SIZE = 32  # conversations


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("evaluate")
    options.add_run(parser)
    parser.add_argument("--file", metavar="FILE", help="the data")
    text = "column of the {} (default: that of the training)"
    for name in ("text", "label"):
        options.add(parser, f"--{name}", str, text.format(f"{name}s"), "COLUMN")
    add_shared(parser, "no_header", "missing")
    add_rows(parser, tag.COLUMNS)
    options.add_encoding(parser)
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq evaluate`."""
    _, record = runs.find_model(args.folder)
    task = (record or {}).get("task")
    if task not in TASKS:
        raise ValueError(
            "expected a run of  kerasseq train classify,  tag,  images,  preferences,  "
            f"conversations  or  speech, received {task} in {args.folder}"
        )
    if args.file is None and task != "speech":
        raise UsageError("expected --file, the data to evaluate on, received none")
    if task != "classify":
        of_table = given(args, "no_header", "text", "label")
        refuse(of_table, "is for the table of a classifier")
    tag.check_columns(args, task == "tag")
    console = Console(stderr=args.json)
    results = TASKS[task](args, record, console)
    results.pop("right", None)  # of each row
    if "accuracy" in results:
        console.write(f"Accuracy: {results['accuracy']:.3f}")
    if args.json:
        print_json(results)


def _load(args):
    choose_backend(args.backend)
    return runs.load_model(args.folder)[0]


def _tagger(args, record, console):
    with status("reading the sentences"):
        data = tag.read_file(args.file, args.encoding, args, record["arguments"])
    model = _load(args)
    every = [tag for tags in data.tags for tag in tags]
    labeled.check_known(every, model.labels, args.file)
    results = tag.evaluate(model, data)
    labeled.show(console, results, f"On {args.file}")
    _show_repeated(args, console, results, tag.keys(data), "sentences")
    return results


def _texts(args, record, console):
    texts, labels = classified(args, record["arguments"])
    model = _load(args)
    labeled.check_known(labels, model.labels, args.file)
    results = classify.evaluate(model, texts, labels)
    labeled.show(console, results, f"On {args.file}")
    _show_repeated(args, console, results, texts, "texts")
    return results


def _images(args, record, console):
    data, _ = image_data.listed(args.file, args.missing)
    names = [os.path.relpath(file, args.file) for file in data.files]
    results, _ = images.evaluate(_load(args), data.files, data.labels, names)
    labeled.show(console, results, f"On {args.file}", "file")
    keys = image_data.keys(data.files)
    _show_repeated(args, console, results, keys, "images")
    return results


def _votes(args, record, console):
    settings = options.Settings(file=args.file)
    with status("reading the votes"):
        votes, _ = preference_data.read_votes(settings)
    model = _load(args)
    votes = preference_data.encode_votes(model, votes, args.file)
    right = preference_data.right(preference_data.of_model(model, votes))
    results = {"accuracy": float(right.mean()), "votes": len(votes)}
    _show_repeated(args, console, results, [vote.key for vote in votes], "votes")
    return results


def _conversations(args, record, console):
    with status("reading the conversations"):
        rows = conversation_rows(args.file, args.encoding)
    model = _load(args)
    talks = conversations.fitting(model, rows, args.file)
    questions = [*filter(None, map(chat.last_question, talks))]
    if not questions:
        raise ValueError(f"{args.file} must have a question of the user and its answer")
    right, _ = chat.share_right(model, questions)
    bits, tokens = chat.bits_of_answers(model, talks, BATCH_SIZE)
    results = {"accuracy": right, "questions": len(questions)}
    results["bits_per_token"] = float(bits.sum() / tokens.sum())
    console.write(f"Bits for a token of an answer: {results['bits_per_token']:.3f}")
    keys = [conversations.key(talk) for talk in talks]
    _show_repeated(args, console, results, keys, "conversations")
    return results


def _speech(args, record, console):
    settings = options.Settings(**record["arguments"])
    sounds, name = _sounds(args, settings, record["data"])
    model = _load(args)
    texts = speech.transcripts(model, sounds.audio, settings.batch_size)
    results = speech.rates(texts, sounds.texts)
    results["examples"] = speech.examples(texts, sounds.texts)
    speech.show_examples(console, results["examples"], name)
    speech.show_rates(console, f"Errors on {name}", {settings.model: results})
    results["sounds"] = len(texts)
    keys = speech_data.keys(sounds.audio)
    _show_repeated(args, console, results, keys, "sounds")
    return results


def _sounds(args, settings, data):
    """Returns the sounds of a folder, or those that the run held out, and a name."""
    with status("reading the sounds"):
        if args.file is not None:
            names = {name: getattr(args, name) for name in ("encoding", "missing")}
            vars(settings).update({**names, "missing": args.missing or "error"})
            return speech_data.folder(args.file, settings), args.file
        every, now = speech_data.read(settings)
    if now["sha256"] != data["sha256"]:
        raise ValueError(
            f"{data['source']} has changed since the run in {args.folder} was started, "
            "so that the sounds it held out are not known. Name a folder with --file"
        )
    return speech_data.split(every, settings)[1], "the held-out sounds"


def _show_repeated(args, console, results, rows, what):
    """Says how many rows the model was trained on, if the run knows."""
    results["repeated"] = repeated_rows(args.folder, rows)
    labeled.show_repeated(
        console,
        results["repeated"],
        len(rows),
        what,
        name=f"{what} of {args.file}",
        advice="Leave these rows out of the file to measure them",
    )


TASKS = {
    "classify": _texts,
    "tag": _tagger,
    "images": _images,
    "preferences": _votes,
    "conversations": _conversations,
    "speech": _speech,
}


def classified(
    args: argparse.Namespace, arguments: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Reads texts with labels, from the columns of the training if there is a file."""
    table = text_tables.read_texts(args.file, args.encoding, not args.no_header)
    names = {"missing": args.missing}
    for name in ("text", "label"):
        trained = arguments[name] if arguments["file"] else None
        names[name] = getattr(args, name)
        if names[name] is None and trained in table.columns:
            names[name] = trained
    texts, labels = classify.columns(table, options.Settings(**names), args.file)
    return classify.cut(texts, arguments["max_characters"]), labels
