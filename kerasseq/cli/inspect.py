"""`kerasseq inspect`: the structure of a model, its gates and its gradient flow."""

import argparse
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

import kerasseq
from kerasseq import datasets
from kerasseq.cli import (
    bert,
    brackets,
    figures,
    image_data,
    options,
    runs,
    translate,
    word_vectors,
)
from kerasseq.cli.console import Console, choose_backend, note, status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.tokenize import note_unknown, pieces
from kerasseq.core import checks

if TYPE_CHECKING:
    import keras

THRESHOLD = 0.01  # of the gradient norm at the last step
MAX_LABELS = 5
MAX_TOKENS = 20  # in the table of what moved a decision
MAX_TEXT = 200  # characters in a figure
DEFAULT_TEXT = "The quick brown fox jumps over the lazy dog."


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add(
        "inspect",
        """\
Print the structure of a model. Then apply it to a text. For a recurrent model, print
how open its gates are and how far back the gradient of its last prediction reaches, and
draw both. For a Transformer, draw the attention weights. For a translation model, draw
the gates and the alignment of --text with its translation. For a model of images, draw
the attention to the patches of an image, and which pixels moved the decision. For word
vectors, print the nearest words of those in --text, and draw them in the plane.""",
        """\
examples:
  kerasseq inspect runs/quickstart
  kerasseq inspect runs/quickstart --text "for x in range(3):"
  kerasseq inspect runs/images-vit-1 --file picture.png
  kerasseq inspect runs/parentheses-race-1/lstm-seed0 --text "{()[()]}"
  kerasseq inspect runs/translation-gru-1 --text "twenty-one" """,
    )
    options.add_run(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--text", metavar="TEXT", help="the input (default: an example of the task)"
    )
    source.add_argument(
        "--file", metavar="FILE", help="a text file, or an image, as input"
    )
    options.add_encoding(parser)
    parser.add_argument(
        "--layer", metavar="NAME", help="the layer to draw (default: the last one)"
    )
    parser.add_argument(
        *("--output-dir", "--out"),
        metavar="DIR",
        help="folder of the figures (default: that of the run)",
    )
    options.add_backend(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq inspect`."""
    runs.find_model(args.folder)
    choose_backend(args.backend)
    console = Console()
    model, record = runs.load_model(args.folder)
    if hasattr(model, "attention_map"):
        inspect_image(console, model, record, args)
        return
    if hasattr(model, "nearest"):
        inspect_vectors(console, model, args)
        return
    if hasattr(model, "translate"):
        inspect_translation(console, model, record, args)
        return
    example = make_example(model, record, args)
    show_structure(console, model)
    if example.text is not None:
        show_attribution(console, model, example.text)
    if example.tags is not None:
        console.table("Tags", ("word", "tag"), example.tags)
    with status("tracing the model"):
        trace = figures.record(model, example.x)
    if figures.is_recurrent(trace):
        show_gates(console, trace)
    with status("computing the gradient through time"):
        flow = example.flow()
    if flow is not None:
        show_flow(console, flow)
    figures.require()
    folder = _output_folder(args)
    layer = _layer(args.layer, trace)
    with status("drawing the figures"):
        files = figures.of_trace(
            folder, trace, example.tokens, flow, example.flow_tokens, layer
        )
    console.write(f"Figures: {', '.join(map(str, files))}")


def inspect_image(
    console: Console,
    model: "kerasseq.models.ViT",
    record: dict[str, Any] | None,
    args: argparse.Namespace,
) -> None:
    """Prints the labels of an image, and draws what the model attends to."""
    if args.text is not None or args.layer is not None:
        raise UsageError(
            "the model classifies images: leave out --text and --layer, and name an "
            "image with --file"
        )
    image = image_data.example(record, args.file)
    found = model.classify(image)
    show_structure(console, model)
    show_labels(console, found.probabilities)
    figures.require()
    folder = _output_folder(args)
    with status("drawing the figures"):
        files = figures.of_image(folder, model, image, found)
    console.write(f"Figures: {', '.join(map(str, files))}")


def inspect_vectors(
    console: Console, model: "kerasseq.models.WordVectors", args: argparse.Namespace
) -> None:
    """Prints the nearest words of words, and draws them in the plane."""
    if args.layer is not None:
        raise UsageError("the model has word vectors and no layers: leave out --layer")
    text = args.text
    if args.file is not None:
        text = datasets.text_file(args.file, args.encoding)
    words = word_vectors.examples(model) if text is None else text.split()
    show_structure(console, model)
    found = {"nearest": word_vectors.nearest_words(model, words), "analogies": {}}
    word_vectors.show(console, found)
    figures.require()
    drawn = model.words[: word_vectors.DRAWN] if text is None else words
    with status("drawing the words"):
        drawn = list(dict.fromkeys(drawn))
        file = word_vectors.draw_words(model, drawn, _output_folder(args), model.method)
    console.write(f"Figures: {file}")


def inspect_translation(
    console: Console,
    model: "kerasseq.models.Seq2Seq | kerasseq.models.Transformer",
    record: dict[str, Any] | None,
    args: argparse.Namespace,
) -> None:
    """Translates a text, and draws the gates and the alignment."""
    text = _given_text(args)
    text = _source_of(record) if text is None else text.strip().splitlines()[0]
    show_structure(console, model)
    translate.note_unknown(model.source_vocabulary.tokenizer, text)
    with status("translating the text"):
        found = model.translate(text)
    columns = ("source", "translation", ">log-probability")
    row = (text, found.text, f"{found.score:.2f}")
    console.table("Translation", columns, [row])
    vocabulary, tokens = model.target_vocabulary, found.target_tokens
    ids = vocabulary.encode([found.text])[0] if found.text else []
    target = np.array([[vocabulary.start, *ids][: len(tokens)]], "int32")
    with status("tracing the model"):
        source = np.array(model.encode_sources([text]), "int32")
        trace = figures.record(model, (source, target))
    figures.require()
    folder, layer, files = _output_folder(args), _layer(args.layer, trace), []
    if figures.is_recurrent(trace):
        show_gates(console, trace)
        layer = layer or figures.last_recurrent_layer(trace)  # of the decoder
        steps = tokens if layer.startswith("decoder") else found.source_tokens
        files.append(figures.gates(folder, trace, steps, layer))
    if found.alignment is not None:
        files.append(figures.alignments(folder / "alignment.png", [found]))
    console.write(f"Figures: {', '.join(map(str, files))}")


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
        return translate.load_pairs(settings)[0].sources[0]
    except (OSError, ValueError) as error:
        raise ValueError(f"{error}. Give a text with --text") from error


def show_labels(console: Console, p: dict[Any, float]) -> None:
    """Prints the most probable labels."""
    best = sorted(p, key=lambda label: -p[label])[:MAX_LABELS]
    rows = [(label, f"{p[label]:.3f}") for label in best]
    console.table("Most probable labels", ("label", ">probability"), rows)


def _given_text(args):
    """Returns the text of the command line or its file, or None."""
    text = args.text
    if args.file is not None:
        text = datasets.text_file(args.file, args.encoding)
    if text is not None and not text.strip():
        raise ValueError("expected a text with letters or numbers, but it is empty")
    return text


def _output_folder(args):
    folder = pathlib.Path(args.output_dir or args.folder)
    if args.output_dir:
        folder.mkdir(parents=True, exist_ok=True)
    return folder if folder.is_dir() else folder.parent


def _layer(name, trace):
    """Returns the path of the layer that the user named, or None."""
    if name is None:
        return None
    layers = sorted({key.rpartition("/")[0] for key in trace})
    return checks.one_of("layer", name, layers)


# The input


class Example(NamedTuple):
    """One input.

    Attributes:
        x: The input, a batch of one, or several by name.
        tokens: Labels of the time steps in the figure of the gates.
        flow_tokens: Labels of the time steps in the figure of the gradient.
        flow: A function that computes the gradient flow, None for a model without
            states.
        text: The text of a classifier, or None.
        tags: The words of a tagger with their tags, or None.
    """

    x: Any
    tokens: list[str] | None
    flow_tokens: list[str] | None
    flow: Callable[[], figures.Recorded]
    text: str | None = None
    tags: list[tuple[str, Any]] | None = None


def make_example(
    model: "keras.Model", record: dict[str, Any] | None, args: argparse.Namespace
) -> Example:
    """Makes the input of the model: the text that was given, or some of its data.

    Args:
        model: A loaded model.
        record: The record of its run, or None.
        args: Arguments of `kerasseq inspect`.

    Raises:
        ValueError: If the text does not fit the model.
    """
    text = _given_text(args)
    kind = type(model).__name__
    if kind == "SequenceClassifier" and record and record["task"] == "parentheses":
        return _parentheses_example(model, record["arguments"]["colors"], text)
    example = _maker(model)
    if example is not None:
        return example(model, DEFAULT_TEXT if text is None else text)
    if kind == "Forecaster" and record:
        return _series_example(model, text)
    raise ValueError(
        f"expected a model of kerasseq train, received another {kind}. In Python, "
        "kerasseq.tracing.trace(model) inspects any model"
    )


def _maker(model):
    """The function that makes an example for a model of texts, or None."""
    if getattr(model, "tokenizer", None) is None:
        return None
    if getattr(model, "labels", None):
        return _tagged_example if model.per_step else _labeled_example
    kinds = {
        "LanguageModel": _text_example,
        "GPT": _text_example,
        "BERT": _bert_example,
    }
    names = [base.__name__ for base in type(model).__mro__]
    return next((kinds[name] for name in names if name in kinds), None)


def _text_example(model, text):
    if len(text) > MAX_TEXT:
        note(f"of the {len(text):,} characters the first {MAX_TEXT} are shown")
        text = text[:MAX_TEXT]
    if len(text) < 2:
        raise ValueError(
            f"expected a text of at least two characters, received {text!r}"
        )
    note_unknown(model.tokenizer, text, "text")
    ids, tokens = model.tokenizer.encode(text), pieces(model.tokenizer, text)
    if len(ids) < 2:
        raise ValueError(
            "expected a text of at least two tokens, received one: give a longer text"
        )
    context = model.context_length  # of a GPT with learned positions, or None
    return Example(
        ids[None, :context],
        tokens[:context],
        tokens[:-1][:context],
        lambda: figures.flow_of_last_prediction(model, ids),
    )


def _bert_example(model, text):
    note_unknown(model.tokenizer, text, "text")
    x, tokens = bert.example(model, text)
    return Example(x, tokens, None, lambda: None)


def _labeled_example(model, text):
    text = text[:MAX_TEXT]
    note_unknown(model.tokenizer, text, "text")
    x, tokens, _ = inputs = model.token_inputs(text)
    y = np.array([model.labels.index(kerasseq.tracing.attribution(model, text).label)])
    flow = figures.flow_of
    return Example(x, _names(model, inputs), tokens, lambda: flow(model, x, y), text)


def _tagged_example(model, text):
    words = text[:MAX_TEXT].split()
    text = " ".join(words)
    note_unknown(model.tokenizer, text, "text")
    x, tokens, places = inputs = model.token_inputs(text)
    tags = model.tag(words)
    y = np.full((1, places[-1] + 1), model.labels.index(tags[-1]))
    flow = figures.flow_of
    return Example(
        *(x, _names(model, inputs), tokens, lambda: flow(model, x, y)),
        tags=list(zip(words, tags, strict=True)),
    )


def _names(model, inputs):
    """The tokens of all positions, with the special tokens of a BERT or GPT."""
    x, tokens, places = inputs
    if not isinstance(x, dict):
        return tokens
    marks = model.preprocessor.marks()
    names = [marks.get(i, "") for i in x["ids"][0].tolist()]
    for place, token in zip(places, tokens, strict=True):
        names[place] = token
    return names


def _parentheses_example(model, colors, text):
    if text is None:
        data = datasets.parentheses(1, colors=colors, kind="hard", seed=0)
        sequence = data.sequences[0]
    else:
        sequence = brackets.read(text, colors)
    label = datasets.is_balanced(sequence, colors)
    tokens = [str(symbol) for symbol in sequence]
    x = brackets.as_ids(sequence, colors)[None]
    y = np.array([int(label)])
    flow = figures.flow_of
    return Example(x, tokens, tokens, lambda: flow(model, x, y))


def _series_example(model, text):
    if text is not None:
        raise ValueError(
            "the model is a forecaster and reads no text: leave out --text and --file"
        )
    x, y = model.last_example()
    flow = figures.flow_of
    return Example(x, None, None, lambda: flow(model, x, y))


# Tables


def show_structure(console: Console, model: "keras.Model") -> None:
    """Prints the layers and the weights."""
    rows = []
    for layer in model.layers:
        shape = getattr(layer.output, "shape", "")
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        count = layer.count_params()
        rows.append((layer.name, type(layer).__name__, f"({sizes})", f"{count:,}"))
    columns = ("layer", "class", "output shape", ">parameters")
    title = f"{type(model).__name__}, {model.count_params():,} parameters"
    console.table(title, columns, rows)
    rows = [
        (w.path, f"({', '.join(map(str, w.shape))})", f"{int(np.prod(w.shape)):,}")
        for w in model.weights
    ]
    console.table("Weights", ("name", "shape", ">parameters"), rows)


def show_attribution(console: Console, model: "keras.Model", text: str) -> None:
    """Prints the most probable labels, and the tokens that moved the decision most."""
    show_labels(console, model.classify(text, threshold=0.0).probabilities)
    label, tokens, scores = kerasseq.tracing.attribution(model, text)
    order = sorted(range(len(tokens)), key=lambda n: -abs(scores[n]))[:MAX_TOKENS]
    rows = [(n + 1, repr(tokens[n]), f"{scores[n]:+.3f}") for n in sorted(order)]
    title = f"What moved the decision for {label}: gradient times input"
    console.table(title, (">place", "token", ">score"), rows)


def show_gates(console: Console, trace: figures.Recorded) -> None:
    """Prints how open the gates are."""
    rows = []
    for key, value in trace.items():
        if key.endswith("_gate"):
            closed, opened = np.mean(value < 0.1), np.mean(value > 0.9)
            shares = f"{closed:.0%}", f"{opened:.0%}"
            rows.append((key, f"{np.mean(value):.3f}", *shares))
    if rows:
        columns = ("gate", ">mean", ">closed (< 0.1)", ">open (> 0.9)")
        console.table("Gates, over all units and steps", columns, rows)


def show_flow(console: Console, flow: figures.Recorded) -> None:
    """Prints how far back the gradient of the last prediction reaches."""
    rows = [(key, f"{norms[-1]:.2e}", vanishing(norms)) for key, norms in flow.items()]
    columns = ("state", ">last step", f"falls below {THRESHOLD:.0%} of that")
    title = "Gradient norm of the loss of the last prediction, back through time"
    console.table(title, columns, rows)


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
