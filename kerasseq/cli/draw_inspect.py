"""What happens inside a model that draws: attention to words, and the use of codes."""

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import (
    draw_pictures,
    draw_predict,
    draw_scores,
    figures,
    image_data,
    multimodal_data,
    multimodal_inspect,
    multimodal_predict,
)
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.console import status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.multimodal_inspect import DRAWN, ROWS, Example

if TYPE_CHECKING:
    from kerasseq.cli.inspect import Report
    from kerasseq.models import Multimodal


def make_example(
    model: "Multimodal", record: dict[str, Any] | None, args: argparse.Namespace
) -> Example:
    """Returns a picture with its caption.

    That is a file with `--text`; a caption alone, with the picture that the model draws
    of it; or by default the first that was held out.

    Args:
        model: The model.
        record: The record of its run, or None.
        args: Arguments of `kerasseq inspect`.
    """
    if args.layer is not None:
        raise UsageError("--layer is for other models: leave it out")
    if args.file is not None and args.text is None:
        raise UsageError(
            "--file is a picture, whose caption the model needs: add --text"
        )
    if args.text is None:
        held_out = multimodal_data.held_out(record, args.folder, draw_predict.ADVICE)
        held_out = models.with_known_words(model.preprocessor.tokenizer, held_out)
        first = multimodal_data.take(held_out, [0])
        return Example(first.images, first.texts[0], held_out)
    if not args.text.strip():
        raise ValueError("--text must be a caption, received an empty one")
    multimodal_predict.check_words(model, [args.text], ["--text"])
    if args.file is not None:
        return Example(image_data.files(args.file)[:1], args.text, None)
    with status("drawing the caption"):
        return Example(model.draw([args.text]), args.text, None)


def show(report: "Report", model: "Multimodal", example: Example) -> None:
    """Prints and draws which words the ids of a picture attend to, and the codes."""
    report.data["caption"] = example.text
    report.console.write(f"Caption: {example.text}")
    encoded = model.encode(example.inputs, [example.text])
    tokens = multimodal_inspect.words(model, example.text)
    with status("tracing the model"):
        trace = figures.record(model, encoded)
    multimodal_inspect.show_attention(report, model, trace, encoded)
    maps = attention_maps(model, trace, encoded)[: len(tokens)]
    if model.get_config()["num_experts"] is not None:
        multimodal_inspect.show_experts(report, model, example)
    inputs, texts = example.inputs, [example.text]
    if example.held_out is not None:
        rows = range(min(ROWS, len(example.held_out.texts)))
        some = multimodal_data.take(example.held_out, rows)
        inputs, texts = some.images, some.texts
    show_codes(report, model, inputs)
    drawn = list(zip(tokens, maps, strict=True))[:DRAWN]
    report.draw(
        lambda folder: [
            draw_attention(folder, model, example.inputs, drawn),
            draw_rebuilt(folder, model, inputs, texts),
        ]
    )


def attention_maps(
    model: "Multimodal", trace: figures.Recorded, encoded: Any
) -> np.ndarray:
    """Returns how each id attends to a word while it is written.

    The token before an id predicts it.

    Returns:
        Mean over the heads of the last layer, `(words, ids)`, without the start and
        the end of the caption.
    """
    where = multimodal_inspect.places(model, trace, encoded)
    last = model.get_config()["num_layers"] - 1
    weights = trace[f"block_{last}/self_attention/alignment"][0].mean(axis=0)
    return weights[np.ix_(where["images"], where["texts"][1:-1])].T


def show_codes(report: "Report", model: "Multimodal", inputs: Any) -> None:
    """Prints how many codes of the codebook pictures use, and the error of rebuilding.

    Args:
        report: What is printed and kept.
        model: The model.
        inputs: Pictures: files or arrays.
    """
    pixels = draw_pictures.real(model, inputs)
    ids = model.codebook.encode(pixels)
    codes = draw_scores.in_use(ids, model.codebook.num_codes)
    error = float(np.mean((model.codebook.decode(ids) - pixels) ** 2))
    row = (codes["num_codes"], codes["used"], codes["perplexity"], error)
    columns = {">codes": "{:,}", ">used": "{:,}", ">perplexity": "{:.2f}"}
    columns[">error of rebuilt pixels"] = "{:.4f}"
    pictures = f"{len(pixels):,} picture{'s' * (len(pixels) > 1)}"
    report.table("codes", f"The codebook on {pictures}", columns, [row])


def draw_attention(
    folder: Any, model: "Multimodal", inputs: Any, drawn: list[tuple[str, np.ndarray]]
) -> Any:
    """Draws the picture once for each word, beside the attention of its ids."""
    grid = model.preprocessor.grid
    image = draw_pictures.as_bytes(draw_pictures.real(model, inputs)[0][..., :3])
    images = np.stack([image] * len(drawn))
    maps = np.stack([values.reshape(grid) for _, values in drawn])
    title = "Attention to each word while a patch is written, percent"
    names = [word for word, _ in drawn]
    figure = kerasseq.tracing.plots.plot_patches(images, maps, names, title)
    return figures.save(figure, folder / "attention.png")


def draw_rebuilt(
    folder: Any, model: "Multimodal", inputs: Any, texts: list[str]
) -> Any:
    """Draws real pictures, and below each the rebuilt and the drawn one."""
    few = slice(draw_pictures.SHOWN)
    with status("drawing the captions"):
        pixels = draw_pictures.real(model, inputs[few])
        ids = model.codebook.encode(pixels)
        rebuilt = model.codebook.decode(ids)
        found = draw_pictures.Pictures(pixels, rebuilt, model.draw(texts[few]), ids)
    return draw_pictures.save(folder, texts[few], found, "rebuilt")
