"""`kerasseq predict`: labels, tags, translations or forecasts, by the kind of run.

Apply the model of a run to texts: a classifier gives labels with probabilities, a
tagger a tag for each word, a translation model translations, a language model the most
probable next tokens, and BERT the most probable tokens for [MASK] and the probability
that a second text follows. Word vectors give the nearest words of a word, and for three
words the answer of an analogy. A classifier of images takes an image or a folder. A
model that draws writes a picture for each caption. A forecast continues its series, or
those of a newer table with the same columns.

Examples:
  kerasseq predict runs/classify-gru-1 --text "Danmark"
  kerasseq predict runs/classify-gru-1 --file new.csv --out labeled.csv
  kerasseq predict runs/images-vit-1 --file picture.png
  kerasseq predict runs/bert-1 --text "one two [MASK] four"
  kerasseq predict runs/bert-1 --text "one two ." --next "three four ."
  kerasseq predict runs/vectors-skip_gram-1 --text "object objects class"
  kerasseq predict runs/captions-1 --file pictures
  kerasseq predict runs/contrastive-1 --text "a red square" --file pictures
  kerasseq predict runs/draw-1 --text "a large blue cross at the top" --temperature 0.7
  kerasseq predict runs/forecast-lstm-1 --horizon 6
  kerasseq predict runs/forecast-lstm-1 --file sales.csv --out forecast.csv
"""

import argparse
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from kerasseq.cli import (
    competitor,
    generate,
    image_data,
    images,
    labeled,
    multimodal_predict,
    options,
    runs,
    tables,
    text_models,
    text_tables,
    word_vectors,
)
from kerasseq.cli import forecast as forecasts
from kerasseq.cli.classify import TEXT_NAMES, cut
from kerasseq.cli.commands import MISSING, add_rows, add_shared
from kerasseq.cli.console import choose_backend, print_json, print_result
from kerasseq.cli.errors import UsageError, about, check_new_file, given, refuse
from kerasseq.cli.tag import COLUMNS, check_columns, read_file
from kerasseq.cli.text_tables import write
from kerasseq.core.padding import pad_rows
from kerasseq.datasets import text_file

NEXT_TOKENS = 5  # shown for a language model
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
SENTENCES = (".conll", ".conllu", ".bio", ".iob")


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("predict")
    options.add_run(parser)
    text_models.add_adapter(parser)
    options.add(parser, "--text", str, "a text", "TEXT")
    text = "a second text for BERT, which may follow the first"
    options.add(parser, "--next", str, text, "TEXT")
    text = (
        "texts: a table (csv, tsv, jsonl, parquet), sentences (conll), or one on each "
        "line; an image or a folder of images; for a forecast, the table to continue"
    )
    options.add(parser, "--file", str, text, "FILE")
    text = "captions, one on each line or in a table, of which to find the nearest"
    options.add(parser, "--captions", str, text, "FILE")
    text = "column of the texts, if the file is a table"
    options.add(parser, "--column", str, text, "NAME")
    text = "steps to forecast, for a forecast (default: as trained)"
    options.add(parser, "--horizon", options.length, text)
    text = (
        "rows with an empty cell: error (the default) or skip; empty cells and missing "
        "dates, for a forecast (default: as trained)"
    )
    kind = options.one_of("choice", {**dict.fromkeys(forecasts.MISSING), "skip": None})
    options.add(parser, "--missing", kind, text, "NAME")
    text = (
        "write the predictions as csv or jsonl; of a model that draws a png, or the "
        "folder of several; nothing is overwritten"
    )
    options.add(parser, "--out", str, text, "FILE")
    group = parser.add_argument_group("a model that draws")
    generate.add_sampler(group)
    options.add_seed(group, None)
    add_shared(parser, "no_header")
    add_rows(parser, COLUMNS)
    options.add_encoding(parser)
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq predict`."""
    _, record = runs.find_model(args.folder)
    if multimodal_predict.draws(args.folder, record):
        multimodal_predict.draw(args, record)
        return
    of_drawing = given(args, *generate.SAMPLING, "seed")
    refuse(of_drawing, "is for a run of kerasseq train draw")
    if args.out is not None:
        check_new_file("--out", args.out, (".csv", ".jsonl"))
    if record and record["task"] == "forecast":
        forecast(args)
        return
    runs.check_no_speech(args.folder, kind := runs.kind(args.folder, record))
    of_kind = dict.fromkeys(("images", "ViT"), predict_images)
    of_kind |= dict.fromkeys(multimodal_predict.KINDS, multimodal_predict.predict)
    is_captioned = kind in multimodal_predict.KINDS
    if not is_captioned:
        of_pictures = given(args, "captions")
        refuse(of_pictures, "is for a run of kerasseq train contrastive")
    rows = of_kind.get(kind, predict_texts)(args, record)
    if args.out is not None:
        write(args.out, rows)
    elif args.json:
        print_json(list(rows))
    else:
        shown = multimodal_predict.describe if is_captioned else describe
        for row in rows:
            name = f"{row['file']}  " if "file" in row and len(rows) > 1 else ""
            print_result(f"{name}{shown(row)}")


def predict_texts(args: argparse.Namespace, record: Any) -> Iterator[dict[str, Any]]:
    """Yields a prediction for each text."""
    check_arguments(args)
    texts = inputs = [args.text] if args.file is None else read_texts(args, record)
    if record and record["task"] == "classify":  # as in training and evaluation
        inputs = cut(texts, record["arguments"]["max_characters"])
    choose_backend(args.backend)
    model, _ = text_models.load_model(args.folder, args.adapter)
    predict, rows = predictor(model, args.folder, record)
    if predict is fill:
        inputs = pairs(inputs, args.next)
    else:
        refuse(given(args, "next"), "is for a BERT that was pre-trained")
    for part in labeled.in_parts(range(len(texts)), rows, "predicting"):
        predictions = predict(model, [inputs[n] for n in part])
        for n, row in zip(part, predictions, strict=True):
            yield {"text": texts[n], **row}


def check_arguments(args: argparse.Namespace) -> None:
    """Raises if the arguments are not those of a prediction for texts."""
    if (args.text is None) == (args.file is None):
        raise UsageError("expected one of --text and --file")
    check_no_forecast(args)
    if args.file is None:
        refuse(given(args, "column"), "is for a table: add --file, or leave it out")
        refuse(given(args, "missing"), "is for a file: add --file, or leave it out")
        if not args.text.strip():
            raise ValueError("expected a text, received an empty one")
    elif args.next is not None:
        raise UsageError("--next is for --text; in a file a tab divides two texts")


def check_no_forecast(args: argparse.Namespace) -> None:
    """Raises if arguments of a forecast are given for another model."""
    refuse(given(args, "horizon"), "is for the run of a forecast")
    if args.missing not in (None, *MISSING):
        raise UsageError(
            f"--missing {args.missing} is for the run of a forecast: expected "
            f"{' or '.join(MISSING)}"
        )


def predict_images(args: argparse.Namespace, record: Any) -> list[dict[str, Any]]:
    """Returns a prediction for each image: a file, or all in a folder."""
    if args.file is None or args.text is not None or args.column is not None:
        raise UsageError(
            "expected --file with an image or a folder of images, without --text and "
            "--column, as the model classifies images"
        )
    refuse(given(args, "next"), "is for a BERT that was pre-trained")
    check_no_forecast(args)
    files = image_data.files(args.file, args.missing)
    choose_backend(args.backend)
    model, _ = text_models.load_model(args.folder, args.adapter)
    predictions = images.classify(model, files)
    return [
        {"file": image_data.printable(file), **as_row(each)}
        for file, each in zip(files, predictions, strict=True)
    ]


def check_forecast(args: argparse.Namespace) -> None:
    """Raises if the arguments are not those of a forecast."""
    if given(args, "text", "column"):
        raise UsageError(
            "the run of a forecast continues its own table, or that of --file: leave "
            "out --text and --column"
        )
    refuse(given(args, "no_header"), "is for a table of texts: add a line with names")
    check_columns(args, is_conll=False)
    if args.file is None:
        refuse(given(args, "missing"), "is for a table: add --file, or leave it out")


def forecast(args: argparse.Namespace) -> None:
    """Prints the values after the end of the series of a forecast, or of a file."""
    check_forecast(args)
    predicted = _continued(args)
    if args.out is not None:
        write(args.out, as_rows(predicted))
    elif args.json:
        print_json(as_rows(predicted))
    elif hasattr(predicted, "to_string"):
        print_result(predicted.to_string(index=False))
    elif len(predicted):
        rows = as_rows(predicted)
        print_result("".join(f"{name:>14}" for name in rows[0]))
        for row in rows:
            print_result("".join(f"{value:14.6g}" for value in row.values()))


def _continued(args):
    """Returns the forecast: a table, or an array for a series without one."""
    table = None
    if args.file is not None:
        encoding = None if args.encoding == "utf-8" else args.encoding
        table = tables.read_table(args.file, encoding)
    choose_backend(args.backend)
    model, record = text_models.load_model(args.folder, args.adapter)
    steps = args.horizon or record["arguments"]["horizon"]
    with about(args.file):
        if table is not None:
            settings = options.Settings(**record["arguments"])
            missing = args.missing or getattr(settings, "missing", None)
            series = model.read(table, missing=missing)
            steps = args.horizon or forecasts.known_steps(series, settings)
            model.set_history(series)
        predicted = model.forecast(steps) if steps else ()
    if steps:
        forecasts.note_start(model)
    is_named = hasattr(predicted, "columns") and predicted.index.name is not None
    return predicted.reset_index() if is_named else predicted


def as_rows(predicted: Any) -> list[dict[str, Any]]:
    """Returns a forecast as plain data."""
    if hasattr(predicted, "columns"):
        return [as_plain(row) for row in predicted.to_dict("records")]
    names = ("step", *(f"quantile {q:g}" for q in forecasts.QUANTILES))
    rows = [(n, *row) for n, row in enumerate(np.asarray(predicted).tolist(), 1)]
    return [dict(zip(names, row, strict=True)) for row in rows]


def as_plain(row: dict[Any, Any]) -> dict[str, Any]:
    """Returns a row of a forecast as plain data, with all digits of dates and values.

    Examples:
        >>> import datetime
        >>> as_plain({"day": datetime.datetime(2024, 1, 31), "sales": 1e-12})
        {'day': '2024-01-31T00:00:00', 'sales': 1e-12}
    """
    return {
        str(name): cell.isoformat() if hasattr(cell, "isoformat") else cell
        for name, cell in row.items()
    }


def read_texts(args: argparse.Namespace, record: Any) -> list[str]:
    """Returns the texts of a file: sentences, a column of a table, or the lines."""
    plain = args.file.lower().removesuffix(".gz")
    is_table, is_conll = plain.endswith(TABLES), plain.endswith(SENTENCES)
    trained = (record or {}).get("arguments", {})
    if not is_table:
        of_table = given(args, "column", "no_header")
        refuse(of_table, f"is for a table, received {args.file}")
    check_columns(args, is_conll)
    if is_conll:
        tagged = read_file(args.file, args.encoding, args, trained)
        return [" ".join(words) for words in tagged.sentences]
    if not is_table:
        lines = text_file(args.file, args.encoding).split("\n")
        return [line for line in lines if line.strip()]
    table = text_tables.read_texts(args.file, args.encoding, not args.no_header)
    name = args.column
    if name is None and trained.get("file") and trained.get("text") in table.columns:
        name = trained["text"]
    with about(args.file):
        name = text_tables.column(table, name, "--column", TEXT_NAMES)
    table = text_tables.without_gaps(table, [name], args.file, args.missing)
    return table.columns[name]


def predictor(model: Any, folder: str, record: Any) -> Any:
    """Returns the function that predicts with a model, and for how many texts at once.

    Args:
        model: The model.
        folder: Its folder, for messages.
        record: The record of its run, or None.

    Raises:
        ValueError: If the model has no prediction for texts.
    """
    if record and record["task"] == "parentheses":
        colors = record["arguments"]["colors"]
        return functools.partial(competitor.classify, colors=colors), 4096
    kinds = {
        "classify": (classify, 4096),
        "tag": (tag, 4096),
        "translate": (translate, 128),
        "generate": (next_tokens, 64),  # as the logits of all tokens are kept
        "fill": (fill, 64),
        "nearest": (word_vectors.predict, 4096),
    }
    for method, (function, rows) in kinds.items():
        if hasattr(model, method) and _predicts(model, method):
            return function, rows
    raise ValueError(
        f"expected a model of texts, received {type(model).__name__} in {folder}. "
        "`kerasseq inspect` shows what it computes"
    )


def _predicts(model, method):
    """Returns whether a model that has a method uses it; not each head of BERT does."""
    if method == "fill":
        return model.head == "pretraining"
    if method in ("classify", "tag"):
        is_right = model.labels is not None and model.per_step == (method == "tag")
        return is_right and model.tokenizer is not None
    return getattr(model, "labels", ()) is not None


def classify(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """Predicts the label of each text, with probabilities."""
    return [as_row(each) for each in model.classify(texts, batch_size=256)]


def as_row(prediction: Any) -> dict[str, Any]:
    """Returns a `Classification` as plain data."""
    return {
        "label": prediction.label,
        "probability": prediction.probability,
        "probabilities": prediction.probabilities,
    }


def tag(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """Predicts the tag of each word."""
    sentences = [text.split() for text in texts]
    tagged = model.tag(sentences, batch_size=256)
    return [
        {"words": words, "tags": tags}
        for words, tags in zip(sentences, tagged, strict=True)
    ]


def translate(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """Translates each text."""
    translations = model.translate(texts)
    return [{"translation": t.text, "score": float(t.score)} for t in translations]


def next_tokens(model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """Predicts the most probable tokens after each text."""
    rows = [model.tokenizer.encode(text) for text in texts]
    for text, row in zip(texts, rows, strict=True):
        if not len(row):
            raise ValueError(f"expected a text with tokens, received {text!r}")
    if model.context_length is not None:  # the last tokens that the model can read
        rows = [row[-model.context_length :] for row in rows]
    # The model is causal: the padding after a text changes nothing before it.
    ids = pad_rows(rows)[:, : model.context_length]
    logits = np.asarray(model.predict(ids, batch_size=len(ids), verbose=0))
    return [
        {"next": _best_tokens(model, each[len(row) - 1])}
        for row, each in zip(rows, logits, strict=True)
    ]


def _best_tokens(model, logits):
    """Returns the most probable tokens, each with its probability."""
    p = np.exp(logits.astype("float64") - logits.max())
    p /= p.sum()
    best = np.argsort(-p, kind="stable")[:NEXT_TOKENS]
    return [
        {"token": model.tokenizer.decode([n]), "probability": float(p[n])} for n in best
    ]


def pairs(texts: list[str], second: str | None) -> list[str | tuple[str, str]]:
    r"""Divides texts at a tab into two, or adds a second text.

    Raises:
        UsageError: If there is neither `[MASK]` nor a second text.

    Examples:
        >>> pairs(["one\ttwo", "a [MASK]"], None)
        [('one', 'two'), 'a [MASK]']
    """
    inputs = []
    for text in texts:
        parts = tuple(text.split("\t", 1)) if second is None else (text, second)
        if len(parts) == 1 and "[MASK]" not in text:
            raise UsageError(
                "expected [MASK] in a text, or a second text with --next (in a file: "
                f"after a tab), received {text[:60]!r}"
            )
        inputs.append(parts if len(parts) > 1 else text)
    return inputs


def fill(model: Any, texts: list[Any]) -> list[dict[str, Any]]:
    """Predicts the most probable tokens of masks, and whether a second text follows.

    With `[MASK]` in a pair, both.
    """
    import keras

    rows = []
    for text in texts:
        row: dict[str, Any] = {}
        if "[MASK]" in (text if isinstance(text, str) else " ".join(text)):
            row["masks"] = [
                [{"token": token, "probability": p} for token, p in each]
                for each in model.fill(text, NEXT_TOKENS)
            ]
        if isinstance(text, tuple):
            logits = keras.ops.softmax(model.predict([text], verbose=0)["next"])
            row["follows"] = float(keras.ops.convert_to_numpy(logits)[0, 1])
        rows.append(row)
    return rows


def describe(row: dict[str, Any]) -> str:
    """Describes a prediction in a line of text.

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
    if "nearest" in row:
        nearest = row["nearest"]
        return "  ".join(f"{each['word']} {each['similarity']:.2f}" for each in nearest)
    if "masks" in row or "follows" in row:
        lines = [_tokens(each) for each in row.get("masks", ())]
        if "follows" in row:
            lines.append(f"the second text follows: {row['follows']:.2f}")
        return "\n".join(lines)
    if isinstance(row["label"], list):
        pairs = zip(row["label"], row["probability"], strict=True)
        return ", ".join(f"{label} {p:.2f}" for label, p in pairs) or "no label"
    return f"{row['label']}  {row['probability']:.2f}"


def _tokens(tokens):
    return "  ".join(f"{each['token']!r} {each['probability']:.2f}" for each in tokens)
