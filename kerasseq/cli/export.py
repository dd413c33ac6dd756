"""`kerasseq export`: a model as files of another runtime, which needs no Keras.

Write the model of a run, or of a .keras file, for onnxruntime, TensorFlow, PyTorch,
OpenVINO, LiteRT, or as a folder of Hugging Face, on whichever backend it was trained.
The files are loaded by their runtime and compared with the model; if they differ, or
the format cannot hold the model, nothing is left of them. Beside them are
preprocessing.json, and for texts tokenizer.json and labels.json. In the format onnx, a
model that generates is two programs, the prompt and one step, with generation.json.

Examples:
  kerasseq export runs/classify-gru-1 --format onnx --out classifier
  kerasseq export runs/classify-gru-1 --format onnx --quantize int8 --out classifier
  kerasseq export runs/forecast-lstm-1 --format tf_saved_model --out forecaster
  kerasseq export runs/language-model-gpt-1 --format huggingface --out gpt
  kerasseq export model.keras --format litert --length 64 --out phone
"""

import argparse
from typing import Any

import kerasseq
from kerasseq.cli import classify, control, labeled, options, runs, tag
from kerasseq.cli.console import Console, note, print_json, status
from kerasseq.cli.errors import UsageError
from kerasseq.core import packages
from kerasseq.datasets.splitting import split_by_class

FORMATS = ("onnx", "tf_saved_model", "torch", "openvino", "litert", "huggingface")
READERS = {
    "onnx": "onnxruntime",
    "openvino": "openvino",
    "litert": "ai-edge-litert",
    "huggingface": "transformers",
}
UNKNOWN = {
    "--backend": "The backend is one that writes the format, whatever the run was "
    "trained on: leave --backend out"
}
MAX_SAMPLES = 1000  # held-out rows whose answers are compared


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("export")
    text = "folder of a run, or a .keras file"
    parser.add_argument("folder", metavar="RUN", help=text)
    kind = options.one_of("format", FORMATS)
    text = ", ".join(FORMATS)
    options.add(parser, "--format", kind, text, "NAME", default=FORMATS[0])
    text = "the folder of the files, to be made"
    options.add(parser, "--out", str, text, "PATH")
    text = "int8: write a second file with weights of 8 bits, and compare both"
    options.add(parser, "--quantize", options.one_of("choice", ("int8",)), text, "NAME")
    text = "steps of files that cannot leave the length free (default: at most 128)"
    options.add(parser, "--length", options.length, text)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq export`."""
    if not args.out:
        raise UsageError("expected a folder, as in  --out exported")
    file, record = runs.find_model(args.folder)
    if (text := runs.unfinished(file, None)) is not None:
        note(text)
    is_cut = (record or {}).get("task") == "classify"
    arguments = record["arguments"] if is_cut else {}
    samples, what = None, "random inputs"
    if args.quantize is not None:
        samples, what = held_out(record)
    with control.signals_handled(), status(f"exporting to {args.format}"):
        exported = kerasseq.exporting.export_model(
            file,
            args.out,
            args.format,
            quantize=args.quantize,
            length=args.length,
            samples=samples,
            max_characters=arguments.get("max_characters"),
        )
    if args.json:
        print_json(as_plain(exported, what))
    else:
        show(Console(), exported, what)


def held_out(record: dict[str, Any] | None) -> tuple[list[Any] | None, str]:
    """Returns held-out texts of a run, and what they are; None if they are not known.

    Args:
        record: The record of the run, or None.
    """
    task = (record or {}).get("task")
    if task not in ("classify", "tag"):
        return None, "random inputs"
    settings = options.Settings(**record["arguments"])
    try:
        if task == "classify":
            texts, labels, data = classify.read(settings)
            _, tested = split_by_class(labels, settings.held_out, settings.seed)
            rows = [texts[n] for n in labeled.bounded(tested, settings.seed)]
        else:
            tagged, data = tag.read(settings)
            rows = tag.split(tagged, settings.held_out, settings.seed)[1].sentences
    except (OSError, ValueError) as error:
        note(f"the data of the run cannot be read ({error}): inputs are random")
        return None, "random inputs"
    if data["sha256"] != record["data"]["sha256"]:
        note("the data have changed since the training: inputs are random")
        return None, "random inputs"
    rows = rows[:MAX_SAMPLES]
    return (
        rows,
        f"{len(rows):,} held-out {'texts' if task == 'classify' else 'sentences'}",
    )


def as_plain(exported: "kerasseq.exporting.Exported", what: str) -> dict[str, Any]:
    """Returns what was written as plain data.

    Args:
        exported: What was written.
        what: What the answers of 8 bits were compared on.
    """
    plain = {**exported._asdict(), "path": str(exported.path)}
    plain["notes"] = list(exported.notes)
    if exported.int8 is not None:
        plain["int8"] = {**exported.int8._asdict(), "data": what}
    return plain


def show(console: Console, exported: "kerasseq.exporting.Exported", what: str) -> None:
    """Prints what was written, and whether it was checked.

    Args:
        console: Where to print.
        exported: What was written.
        what: What the answers of 8 bits were compared on.
    """
    rows = [(name, f"{size:,}") for name, size in exported.files.items()]
    console.table(str(exported.path), ("file", ">bytes"), rows)
    console.write(_checked(exported))
    if exported.batch is not None:
        console.write(f"The inputs have {exported.batch} row.")
    elif exported.length is None:
        console.write("Batch size and length are free.")
    else:
        console.write("The batch size is free.")
    for sentence in exported.notes:
        console.write(sentence)
    if exported.int8 is not None:
        _show_int8(console, exported.int8, what)


def _checked(exported):
    written = f"Written on {exported.backend}"
    if exported.checked_by is None:
        reader = READERS[exported.format]
        if exported.format == "huggingface" and packages.is_installed(reader):
            return f"{written}, and not compared: nothing does for this model."
        return (
            f"{written}, and not checked: that needs {reader}. "
            f"{packages.install(reader)}"
        )
    return (
        f"{written}, and run by {exported.checked_by}: the largest difference from the "
        f"model is {exported.difference:.1e} of the largest output."
    )


def _show_int8(console, int8, what):
    sizes, times = int8.sizes, int8.milliseconds
    rows = [
        (name, f"{size:,}", f"{size / sizes[0]:.2f}", f"{t:.2f}", f"{t / times[0]:.2f}")
        for name, size, t in zip(("float32", "int8"), sizes, times, strict=True)
    ]
    columns = ("weights", ">bytes", ">of float32", ">ms a call", ">of float32")
    console.table(f"{int8.file}: one row a call", columns, rows)
    if sizes[0] == sizes[1]:
        console.write("No weight has 8 bits: small ones are left in float32.")
    if int8.changed is None:
        console.write(
            f"On {what} outputs differ by {int8.difference:.2g} of the largest at most."
        )
        return
    console.write(
        f"On {what} {int8.changed:,} of {int8.answers:,} answers change; outputs "
        f"differ by {int8.difference:.2g} of the largest at most."
    )
