"""`kerasseq inspect`: the structure of a model, its gates and its gradient flow.

Print the structure of a model. Then apply it to a text. For a recurrent model, print
how open its gates are and how far back the gradient of its last prediction reaches, and
draw both. For a Transformer, draw the attention weights, and, where it has a mixture of
experts, which expert reads which token. For a translation model, draw the gates and the
alignment of --text with its translation. For a model of images, draw the attention to
the patches of an image, and which pixels moved the decision. For word vectors, print
the nearest words of those in --text, and draw them in the plane. For a model that
writes captions, print how much patches and words attend to each other, and for a
contrastive one what each word adds to the cosine with the image. Both draw which
patches belong to which word, and print which expert takes which kind of token. For a
model that draws, print how many codes are in use, and draw which words each patch
attends to, and real, rebuilt and drawn pictures.

Examples:
  kerasseq inspect runs/quickstart
  kerasseq inspect runs/quickstart --text "for x in range(3):"
  kerasseq inspect runs/images-vit-1 --file picture.png
  kerasseq inspect runs/parentheses-race-1/lstm-seed0 --text "{()[()]}"
  kerasseq inspect runs/translation-gru-1 --text "twenty-one"
  kerasseq inspect runs/contrastive-1 --file picture.png --text "a red square"
"""

import argparse
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

import kerasseq
from kerasseq import datasets
from kerasseq.cli import (
    figures,
    image_data,
    multimodal_inspect,
    multimodal_predict,
    options,
    runs,
    text_models,
    translate,
    translation,
    word_vectors,
)
from kerasseq.cli.console import Console, choose_backend, print_json, status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.inspected import given_text, make_example
from kerasseq.core import checks

if TYPE_CHECKING:
    import keras

THRESHOLD = 0.01  # of the gradient norm at the last step
MAX_LABELS = 5  # rows of the table, the most probable ones
MAX_TOKENS = 20  # in the table of what moved a decision


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("inspect")
    options.add_run(parser)
    text_models.add_adapter(parser)
    text, shown = "the input, or the caption of an image", "an example of the task"
    options.add(parser, "--text", str, text, "TEXT", shown=shown)
    text = "a text file, or an image, as input"
    options.add(parser, "--file", str, text, "FILE")
    options.add_encoding(parser)
    text = "the layer to draw"
    options.add(parser, "--layer", str, text, "NAME", shown="the last one")
    text, shown = "folder of the figures", "that of the run"
    options.add(parser, "--output-dir --out", str, text, "DIR", shown=shown)
    options.add_backend(parser)
    options.add_json(parser)


class Report:
    """What was found about a model: printed at once, and as plain data.

    Args:
        args: The arguments of the command.
    """

    def __init__(self, args: argparse.Namespace):
        self.console: Console = Console(stderr=args.json)
        self.data: dict[str, Any] = {}
        self.folder: pathlib.Path = pathlib.Path(args.output_dir or args.folder)
        self.is_own_folder: bool = args.output_dir is not None

    def table(
        self,
        key: str,
        title: str,
        columns: dict[str, str],
        rows: Iterable[Sequence[Any]],
    ) -> None:
        """Adds rows, and prints them as a table.

        Args:
            key: The name of the rows in the plain data.
            title: The title of the table.
            columns: The format of the cells of each column by its heading, as in
                `Console.table`.
            rows: The values.
        """
        rows = list(rows)
        if not rows:
            return
        names = [heading.removeprefix(">") for heading in columns]
        self.data[key] = [dict(zip(names, row, strict=True)) for row in rows]
        formats = list(columns.values())
        cells = [
            [f.format(v) for f, v in zip(formats, row, strict=True)] for row in rows
        ]
        self.console.table(title, columns, cells)

    def draw(self, make: Callable[[pathlib.Path], Sequence[pathlib.Path]]) -> None:
        """Draws figures into the folder that `make` gets."""
        figures.require()
        if self.is_own_folder:
            self.folder.mkdir(parents=True, exist_ok=True)
        with status("drawing the figures"):
            folder = self.folder if self.folder.is_dir() else self.folder.parent
            files = [str(file) for file in make(folder)]
        self.data["figures"] = files
        if files:
            self.console.info(f"Figures: {', '.join(files)}")
            return
        self.console.info("No figures: the model has no gates and no attention weights")
        if self.is_own_folder and not any(self.folder.iterdir()):
            self.folder.rmdir()


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq inspect`."""
    _, record = runs.find_model(args.folder)
    runs.check_no_speech(args.folder, kind := runs.kind(args.folder, record))
    if kind not in multimodal_predict.KINDS and None not in (args.text, args.file):
        raise UsageError("--text is not allowed with --file: give one")
    if multimodal_predict.draws(args.folder, record):
        multimodal_predict.check_no_codebook(args.folder)
    choose_backend(args.backend)
    model, record = text_models.load_model(args.folder, args.adapter)
    report = Report(args)
    kinds = {
        "describe": inspect_multimodal,
        "attention_map": inspect_image,
        "nearest": inspect_vectors,
        "translate": inspect_translation,
    }
    chosen = [kind for method, kind in kinds.items() if hasattr(model, method)]
    (chosen or [inspect_example])[0](report, model, record, args)
    if args.json:
        print_json(report.data)


def inspect_example(
    report: Report, model: Any, record: dict[str, Any] | None, args: argparse.Namespace
) -> None:
    """Applies a model to a text or a series, and draws what happens inside."""
    example = make_example(model, record, args)
    show_structure(report, model)
    if example.text is not None:
        show_attribution(report, model, example.text)
    columns = {"word": "{}", "tag": "{}"}
    report.table("tags", "Tags", columns, example.tags or ())
    with status("tracing the model"):
        trace = figures.record(model, example.x)
    if figures.is_recurrent(trace):
        show_gates(report, trace)
    with status("computing the gradient through time"):
        flow = example.flow()
    if flow is not None:
        show_flow(report, flow)
    layer = _layer(args.layer, trace)
    steps = (example.tokens, flow, example.flow_tokens)
    report.draw(lambda folder: figures.of_trace(folder, trace, *steps, layer))


def inspect_image(
    report: Report, model: Any, record: dict[str, Any] | None, args: argparse.Namespace
) -> None:
    """Prints the labels of an image, and draws what the model attends to."""
    if args.text is not None or args.layer is not None:
        raise UsageError(
            "the model classifies images: leave out --text and --layer, and name an "
            "image with --file"
        )
    image = image_data.example(record, args.file)
    prediction = model.classify(image)
    show_structure(report, model)
    show_labels(report, prediction.probabilities)
    report.draw(lambda folder: figures.of_image(folder, model, image, prediction))


def inspect_multimodal(
    report: Report, model: Any, record: dict[str, Any] | None, args: argparse.Namespace
) -> None:
    """Prints and draws what happens between a picture and its caption."""
    example = multimodal_inspect.make_example(model, record, args)
    show_structure(report, model)
    multimodal_inspect.show(report, model, example)


def inspect_vectors(
    report: Report, model: Any, record: dict[str, Any] | None, args: argparse.Namespace
) -> None:
    """Prints the nearest words of words, and draws them in the plane."""
    if args.layer is not None:
        raise UsageError("the model has word vectors and no layers: leave out --layer")
    text = args.text
    if args.file is not None:
        text = datasets.text_file(args.file, args.encoding)
    words = word_vectors.examples(model) if text is None else text.split()
    show_structure(report, model)
    results = {"nearest": word_vectors.nearest_words(model, words), "analogies": {}}
    report.data |= results
    word_vectors.show(report.console, results)
    drawn = model.words[: word_vectors.DRAWN] if text is None else words
    drawn = list(dict.fromkeys(drawn))
    report.draw(
        lambda folder: [word_vectors.draw_words(model, drawn, folder, model.method)]
    )


def inspect_translation(
    report: Report, model: Any, record: dict[str, Any] | None, args: argparse.Namespace
) -> None:
    """Translates a text, and draws the gates and the alignment."""
    text = given_text(args)
    text = _source_of(record) if text is None else text.strip().splitlines()[0]
    show_structure(report, model)
    translate.note_unknown(model.source_tokenizer, text)
    with status("translating the text"):
        translated = model.translate(text)
    columns = {"source": "{}", "translation": "{}", ">log-probability": "{:.2f}"}
    row = (text, translated.text, float(translated.score))
    report.table("translation", "Translation", columns, [row])
    vocabulary, tokens = model.target_vocabulary, translated.target_tokens
    ids = vocabulary.encode([translated.text])[0] if translated.text else []
    target = np.array([[vocabulary.start, *ids][: len(tokens)]], "int32")
    with status("tracing the model"):
        source = np.array(model.encode_sources([text]), "int32")
        trace = figures.record(model, (source, target))
    is_recurrent, layer = figures.is_recurrent(trace), _layer(args.layer, trace)
    if is_recurrent:
        show_gates(report, trace)
        layer = layer or figures.last_recurrent_layer(trace)  # of the decoder

    def draw(folder):
        files = []
        if is_recurrent:
            steps = tokens if layer.startswith("decoder") else translated.source_tokens
            files.append(figures.gates(folder, trace, steps, layer))
        if translated.alignment is not None:
            files.append(figures.alignments(folder / "alignment.png", [translated]))
        return files

    report.draw(draw)


def _source_of(record: dict[str, Any] | None) -> str:
    """Returns a source of the data of a run.

    Raises:
        ValueError: If there is no run, or its data cannot be read.
    """
    if record is None:
        raise ValueError("expected a text to translate: give one with --text")
    settings = options.Settings(**record["arguments"])
    if settings.pairs is None:
        return datasets.generated_pairs(settings.data, 1, seed=settings.seed).sources[0]
    try:
        return translation.load_pairs(settings)[0].sources[0]
    except (OSError, ValueError) as error:
        raise ValueError(f"{error}. Give a text with --text") from error


def show_labels(report: Report, p: dict[Any, float]) -> None:
    """Prints the most probable labels."""
    rows = sorted(p.items(), key=lambda pair: -pair[1])[:MAX_LABELS]
    columns = {"label": "{}", ">probability": "{:.3f}"}
    report.table("labels", "Most probable labels", columns, rows)


def _layer(name, trace):
    """Returns the path of the layer that the user named, or None."""
    if name is None:
        return None
    layers = sorted({key.rpartition("/")[0] for key in trace})
    return checks.one_of("layer", name, layers)


# Tables


def show_structure(report: Report, model: "keras.Model") -> None:
    """Prints the layers and the weights."""
    kind, count = type(model).__name__, model.count_params()
    report.data |= {"class": kind, "parameters": count}
    rows = []
    for layer in model.layers:
        shape = getattr(layer.output, "shape", "")
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        kept = layer.name, type(layer).__name__, f"({sizes})", layer.count_params()
        rows.append(kept)
    columns = {
        "layer": "{}",
        "class": "{}",
        "output shape": "{}",
        ">parameters": "{:,}",
    }
    report.table("layers", f"{kind}, {count:,} parameters", columns, rows)
    rows = [(w.path, tuple(w.shape), int(np.prod(w.shape))) for w in model.weights]
    columns = {"name": "{}", "shape": "{}", ">parameters": "{:,}"}
    report.table("weights", "Weights", columns, rows)


def show_attribution(report: Report, model: Any, text: str) -> None:
    """Prints the most probable labels, and the tokens that moved the decision most."""
    show_labels(report, model.classify(text, threshold=0.0).probabilities)
    label, tokens, scores = kerasseq.tracing.attribution(model, text)
    order = sorted(range(len(tokens)), key=lambda n: -abs(scores[n]))[:MAX_TOKENS]
    rows = [(n + 1, tokens[n], float(scores[n])) for n in sorted(order)]
    title = f"What moved the decision for {label}: gradient times input"
    columns = {">place": "{}", "token": "{!r}", ">score": "{:+.3f}"}
    report.table("attribution", title, columns, rows)


def show_gates(report: Report, trace: figures.Recorded) -> None:
    """Prints how open the gates are."""
    rows = [
        (key, *(float(np.mean(v)) for v in (value, value < 0.1, value > 0.9)))
        for key, value in trace.items()
        if key.endswith("_gate")
    ]
    columns = {"gate": "{}", ">mean": "{:.3f}"}
    columns |= {">closed (< 0.1)": "{:.0%}", ">open (> 0.9)": "{:.0%}"}
    report.table("gates", "Gates, over all units and steps", columns, rows)


def show_flow(report: Report, flow: figures.Recorded) -> None:
    """Prints how far back the gradient of the last prediction reaches."""
    rows = [(key, float(norms[-1]), vanishing(norms)) for key, norms in flow.items()]
    columns = {"state": "{}", ">last step": "{:.2e}"}
    columns[f"falls below {THRESHOLD:.0%} of that"] = "{}"
    title = "Gradient norm of the loss of the last prediction, back through time"
    report.table("gradient", title, columns, rows)


def vanishing(norms: ArrayLike) -> str:
    """Describes where the gradient norm falls below 1 % of that at the last step.

    Examples:
        >>> vanishing(np.array([1e-4, 1e-3, 0.2, 1.0]))
        '2 steps before the end'
    """
    norms = np.asarray(norms)
    small = np.flatnonzero(norms < THRESHOLD * norms[-1])
    if not len(small):
        return f"not within {len(norms)} steps"
    back = len(norms) - 1 - int(small[-1])
    return f"{back} step{'s' if back > 1 else ''} before the end"
