"""`kerasseq predict`: labels, tags, translations or forecasts, by the kind of run."""

import argparse
import csv
import io
import json
import pathlib
import sys
from typing import Any

from kerasseq.cli import options, runs, tables
from kerasseq.cli.classify import TEXT_NAMES, read_text_table
from kerasseq.cli.console import choose_backend, print_json, status
from kerasseq.cli.errors import UsageError
from kerasseq.core.files import replacing
from kerasseq.datasets import text_file

BATCH = 1024  # texts that are processed before they are written
NEXT_TOKENS = 5  # shown for a language model
LONG = "probabilities"  # left out of a csv
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add(
        "predict",
        "classify, tag or translate texts, or forecast",
        """\
Apply the model of a run to texts: a classifier gives labels with probabilities, a
tagger a tag for each word, a translation model translations, a language model the most
probable next tokens, and BERT the most probable tokens for [MASK] and the probability
that a second text follows. A forecast needs no text: it continues its series.""",
        """\
examples:
  kerasseq predict runs/classify-gru-1 --text "Danmark"
  kerasseq predict runs/classify-gru-1 --file new.csv --out labeled.csv
  kerasseq predict runs/bert-1 --text "one two [MASK] four"
  kerasseq predict runs/bert-1 --text "one two ." --next "three four ."
  kerasseq predict runs/forecast-lstm-1 --horizon 6""",
    )
    options.add_run(parser)
    parser.add_argument("--text", metavar="TEXT", help="a text")
    help = "a second text for BERT, which may follow the first"
    parser.add_argument("--next", metavar="TEXT", help=help)
    help = "texts: a table (csv, tsv, jsonl, parquet), or one on each line"
    parser.add_argument("--file", metavar="FILE", help=help)
    help = "column of the texts, if the file is a table"
    parser.add_argument("--column", metavar="NAME", help=help)
    help = "steps to forecast, for a forecast (default: as trained)"
    parser.add_argument("--horizon", type=options.length, metavar="N", help=help)
    help = "write the predictions as csv or jsonl; nothing is overwritten"
    parser.add_argument("--out", metavar="FILE", help=help)
    options.add_encoding(parser)
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq predict`."""
    if args.out is not None:
        check_out(args.out)
    _, record = runs.find_model(args.folder)
    if record and record["task"] == "forecast":
        forecast(args)
        return
    rows = predict_texts(args, record)
    if args.out is not None:
        write(args.out, rows)
    elif args.json:
        print_json(rows)
    else:
        for row in rows:
            print(describe(row))


def predict_texts(args: argparse.Namespace, record: Any) -> list[dict[str, Any]]:
    """Returns a prediction for each text."""
    if (args.text is None) == (args.file is None):
        raise UsageError("expected one of --text and --file")
    if args.horizon is not None:
        raise UsageError("--horizon is for the run of a forecast")
    texts = [args.text] if args.file is None else read_texts(args, record)
    if not all(text.strip() for text in texts):
        raise ValueError("expected texts, received an empty one")
    choose_backend(args.backend)
    model, _ = runs.load_model(args.folder)
    predict = predictor(model, args.folder)
    if predict is fill:
        texts = pairs(texts, args.next)
    elif args.next is not None:
        raise UsageError("--next is for a BERT that was pre-trained")
    found = []
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        with status(f"predicting {start + 1:,} to {start + len(part):,}"):
            found += predict(model, part)
    return [{"text": text, **row} for text, row in zip(texts, found, strict=True)]


def forecast(args: argparse.Namespace) -> None:
    """Prints the values after the end of the series of a forecast."""
    if args.text is not None or args.file is not None:
        raise UsageError(
            "the run of a forecast continues its own table: leave out --text and --file"
        )
    choose_backend(args.backend)
    model, record = runs.load_model(args.folder)
    frame = model.forecast(args.horizon or record["arguments"]["horizon"])
    frame = frame.reset_index()
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    if args.out is not None:
        write(args.out, rows)
    elif args.json:
        print_json(rows)
    else:
        print(frame.to_string(index=False))


def read_texts(args: argparse.Namespace, record: Any) -> list[str]:
    """Returns the texts of a file, from a column of a table or line by line."""
    plain = args.file.lower().removesuffix(".gz")
    if not plain.endswith(TABLES):
        lines = text_file(args.file, args.encoding).splitlines()
        texts = [line for line in lines if line.strip()]
        if not texts:
            raise ValueError(f"{args.file} has no texts")
        return texts
    table = read_text_table(args.file, args.encoding)
    name = args.column
    trained = (record or {}).get("arguments", {})
    if name is None and trained.get("file") and trained.get("text") in table.columns:
        name = trained["text"]
    name = tables.column(table, name, "--column", TEXT_NAMES)
    return table[name].tolist()


def predictor(model: Any, folder: str) -> Any:
    """Returns the function that predicts with a model.

    Raises:
        ValueError: If the model has no prediction for texts.
    """
    kinds = {
        "classify": classify,
        "tag": tag,
        "translate": translate,
        "generate": next_tokens,
        "fill": fill,
    }
    for method, function in kinds.items():
        if hasattr(model, method) and getattr(model, "labels", ()) is not None:
            if function in (classify, tag) and model.tokenizer is None:
                continue
            if function is fill and model.head != "pretraining":
                continue
            return function
    raise ValueError(
        f"expected a model of texts, received {type(model).__name__} in {folder}. "
        "`kerasseq inspect` shows what it computes"
    )


def classify(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The label of each text, with probabilities."""
    return [
        {
            "label": each.label,
            "probability": each.probability,
            "probabilities": each.probabilities,
        }
        for each in model.classify(texts)
    ]


def tag(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The tag of each word."""
    sentences = [text.split() for text in texts]
    found = model.tag(sentences)
    return [
        {"words": words, "tags": tags}
        for words, tags in zip(sentences, found, strict=True)
    ]


def translate(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The translation of each text."""
    found = model.translate(texts)
    return [{"translation": each.text, "score": float(each.score)} for each in found]


def next_tokens(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The most probable tokens after each text."""
    import numpy as np

    found = []
    for text in texts:
        ids = model.tokenizer.encode(text)[None]
        logits = np.asarray(model.predict(ids, verbose=0))[0, -1].astype("float64")
        p = np.exp(logits - logits.max())
        p /= p.sum()
        best = np.argsort(-p)[:NEXT_TOKENS]
        tokens = {model.tokenizer.decode([n]): float(p[n]) for n in best}
        found.append({"next": tokens})
    return found


def pairs(texts: list[str], second: str | None) -> list[str | tuple[str, str]]:
    r"""Divides texts at a tab into two, or adds a second text.

    Raises:
        UsageError: If there is neither `[MASK]` nor a second text.

    Examples:
        >>> pairs(["one\ttwo", "a [MASK]"], None)
        [('one', 'two'), 'a [MASK]']
    """
    found = []
    for text in texts:
        parts = (text,) if second is None else (text, second)
        parts = tuple(parts[0].split("\t", 1)) if second is None else parts
        if len(parts) == 1 and "[MASK]" not in text:
            raise UsageError(
                "expected [MASK] in a text, or a second text with --next (in a file: "
                f"after a tab), received {text[:60]!r}"
            )
        found.append(parts if len(parts) > 1 else text)
    return found


def fill(model: Any, texts: list[Any]) -> list[dict[str, Any]]:
    """The most probable tokens for each mask, and for pairs whether the second follows.

    With `[MASK]` in a pair, both.
    """
    import keras

    found = []
    for text in texts:
        row: dict[str, Any] = {}
        if "[MASK]" in (text if isinstance(text, str) else " ".join(text)):
            row["masks"] = [dict(each) for each in model.fill(text, NEXT_TOKENS)]
        if isinstance(text, tuple):
            logits = keras.ops.softmax(model.predict([text], verbose=0)["next"])
            row["follows"] = float(keras.ops.convert_to_numpy(logits)[0, 1])
        found.append(row)
    return found


def describe(row: dict[str, Any]) -> str:
    """A prediction as a line of text.

    Examples:
        >>> describe({"text": "a b", "words": ["a", "b"], "tags": ["X", "Y"]})
        'a/X b/Y'
    """
    if "tags" in row:
        pairs = zip(row["words"], row["tags"], strict=True)
        return " ".join(f"{word}/{tag}" for word, tag in pairs)
    if "translation" in row:
        return row["translation"]
    if "next" in row:
        return _tokens(row["next"])
    if "masks" in row or "follows" in row:
        lines = [_tokens(each) for each in row.get("masks", ())]
        if "follows" in row:
            lines.append(f"the second text follows: {row['follows']:.2f}")
        return "\n".join(lines)
    if isinstance(row["label"], list):
        pairs = zip(row["label"], row["probability"], strict=True)
        return ", ".join(f"{label} {p:.2f}" for label, p in pairs) or "no label"
    return f"{row['label']}  {row['probability']:.2f}"


def _tokens(found):
    return "  ".join(f"{token!r} {p:.2f}" for token, p in found.items())


def check_out(file: str) -> None:
    """Raises if predictions cannot be written to a file."""
    if not file.endswith((".csv", ".jsonl")):
        raise UsageError(f"--out must end in .csv or .jsonl, received {file}")
    if pathlib.Path(file).exists():
        raise UsageError(f"{file} exists already, and nothing is overwritten")


def write(file: str, rows: list[dict[str, Any]]) -> None:
    """Writes predictions, atomically."""
    out = io.StringIO()
    if file.endswith(".jsonl"):
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    else:
        rows = [
            {name: _cell(value) for name, value in row.items() if name != LONG}
            for row in rows
        ]
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with (
        replacing(file) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as stream,
    ):
        stream.write(out.getvalue())
    print(f"kerasseq: wrote {len(rows):,} rows to {file}", file=sys.stderr)


def _cell(value):
    return " ".join(map(str, value)) if isinstance(value, list | dict) else value
