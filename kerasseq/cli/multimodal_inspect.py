"""What happens between pictures and words inside a model: attention, parts, experts.

Of a model that draws also the use of the codes of its codebook.
"""

import argparse
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import (
    draw_scores,
    figures,
    image_data,
    multimodal_data,
    multimodal_predict,
)
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.console import status
from kerasseq.cli.errors import UsageError, named_rows
from kerasseq.cli.multimodal_data import CAPTIONS, DRAW, Captioned

if TYPE_CHECKING:
    from kerasseq.cli.inspect import Report
    from kerasseq.models import Multimodal

ROWS = 64  # held-out pictures whose tokens are counted by expert
DRAWN = 16  # words, each with its map
NAMES = {"images": "patches", "audio": "sound", "texts": "words"}
TITLES = {  # of the maps of patches, by the head of the model
    "caption": "Attention to the patches while each word is written, percent",
    "draw": "Attention to each word while a patch is written, percent",
    "contrastive": "What each patch and word add to the cosine: red more, blue less",
}


class Example(NamedTuple):
    """A picture with a caption.

    Attributes:
        inputs: What the model reads beside the caption: a file, an array, or a
            dictionary with a sound.
        text: The caption.
        held_out: The held-out pictures of the run; None if a file was named.
    """

    inputs: Any
    text: str
    held_out: Captioned | None


def make_example(
    model: "Multimodal", record: dict[str, Any] | None, args: argparse.Namespace
) -> Example:
    """Returns the picture that was named, or the first that was held out.

    Of a model that draws also a caption alone, with the picture that it draws of it.

    Args:
        model: The model.
        record: The record of its run, or None.
        args: Arguments of `kerasseq inspect`.
    """
    head = model.get_config()["head"]
    task = multimodal_predict.HEADS.get(head, multimodal_data.CONTRASTIVE)
    if args.layer is not None:
        raise UsageError("--layer is for other models: leave it out")
    if args.text is not None and not args.text.strip():
        raise ValueError("--text must be a caption, received an empty one")
    find = _drawn_example if task == DRAW else _read_example
    example = find(model, record, args, task)
    multimodal_predict.check_words(model, [example.text], ["--text"])
    if example.inputs is None:
        with status("drawing the caption"):
            return example._replace(inputs=model.draw([example.text]))
    return example


def _drawn_example(model, record, args, task):
    """Returns the example of a model that draws; without a picture for a caption."""
    if args.text is not None:
        picture = None if args.file is None else image_data.files(args.file)[:1]
        return Example(picture, args.text, None)
    if args.file is not None:
        raise UsageError(
            "--file is a picture, whose caption the model needs: add --text"
        )
    advice = multimodal_predict.GIVE_TEXT
    held_out = multimodal_data.held_out(record, args.folder, advice)
    held_out = models.with_known_words(model.preprocessor.tokenizer, held_out)
    first = multimodal_data.take(held_out, [0])
    return Example(first.images, first.texts[0], held_out)


def _read_example(model, record, args, task):
    """Returns the example of a model that reads pictures."""
    held_out, text = None, args.text
    if args.file is None:
        held_out = multimodal_data.held_out(record, args.folder)
        first = multimodal_data.take(held_out, [0])
        inputs = multimodal_data.inputs(first)
    else:
        inputs = image_data.files(args.file)[:1]
        multimodal_predict.check_files(model, args.file, task)
    if text is None and task == CAPTIONS:
        text = written(model, inputs)
    if text is None and held_out is not None:
        (text,) = first.texts
    if text is None and task == CAPTIONS:
        raise ValueError(
            "the model writes no caption for this picture that it can read again: "
            "train it longer, or give a caption with --text"
        )
    if text is None:
        given = multimodal_predict.of_run(
            record, args.folder, multimodal_predict.GIVE_TEXT
        )
        given = multimodal_predict.known_captions(model, *given)
        names = [{"file": args.file}]
        (row,) = multimodal_predict.nearest_captions(model, inputs, names, given)
        text = row["nearest_caption"]
    return Example(inputs, text, held_out)


def written(model: "Multimodal", inputs: Any) -> str | None:
    """Returns the caption that a model writes for a picture, if it can be read again.

    One of parts of characters, at the begin of the training, takes more tokens then.
    """
    (text,) = model.describe(inputs)
    count = len(model.preprocessor.tokenizer.encode(text)) if text.strip() else 0
    return text if 0 < count <= model.preprocessor.longest else None


def show(report: "Report", model: "Multimodal", example: Example) -> None:
    """Prints and draws what happens between a picture and its caption."""
    report.data["caption"] = example.text
    report.console.write(f"Caption: {example.text}")
    with named_rows(["--text"], "texts"):
        encoded = model.encode(example.inputs, [example.text])
    tokens = words(model, example.text)
    with status("tracing the model"):
        trace = figures.record(model, encoded)
    config = model.get_config()
    if config["head"] == "contrastive":
        parts = contributions(model, encoded)
        show_contributions(report, parts, tokens)
        maps = parts[:, 1:-1].T
    else:
        show_attention(report, model, trace, encoded)
        maps = attention_maps(model, trace, encoded)
    if config["num_experts"] is not None:
        show_experts(report, model, example)
    if config["head"] == "draw":
        inputs, texts = _some(model, example)
        show_codes(report, model, inputs)
    drawn = list(zip(tokens, maps[: len(tokens)], strict=True))[:DRAWN]

    def make(folder):
        files = [draw(folder, model, example.inputs, drawn)]
        if config["head"] == "draw":
            few = slice(draw_scores.SHOWN)
            made = draw_scores.draw_all(model, inputs[few], texts[few])
            files.append(draw_scores.save(folder, texts[few], made, "rebuilt"))
        return files

    if "images" in model.kinds:
        report.draw(make)


def _some(model, example):
    """Returns some held-out pictures with their captions, or the one that was named."""
    held_out = example.held_out
    if held_out is None:
        return example.inputs, [example.text]
    some = multimodal_data.take(held_out, range(min(ROWS, len(held_out.texts))))
    some = models.with_known_words(model.preprocessor.tokenizer, some)
    return multimodal_data.inputs(some), some.texts


def words(model: "Multimodal", text: str) -> list[str]:
    """Returns the tokens of a caption, as text."""
    tokenizer = model.preprocessor.tokenizer
    return [tokenizer.decode([n]).strip() or "␣" for n in tokenizer.encode(text)]


def places(
    model: "Multimodal", trace: figures.Recorded, encoded: Any
) -> dict[str, np.ndarray]:
    """Returns the places of the real tokens of each kind in the sequence."""
    mask = trace["block_0/self_attention/mask"][0, 0]  # (T, T)
    every = np.arange(mask.shape[1])
    count = encoded["ids"].shape[1]
    end, start = len(every) - count, 0
    if "codes" in encoded:  # words come before the patches that are drawn
        real = mask.any(axis=0)
        return {"images": every[count:], "texts": every[:count][real[:count]]}
    if "images" in model.kinds:
        start = int(np.prod(_grid(model)))
    parts = {"images": every[:start], "audio": every[start:end], "texts": every[end:]}
    seen = mask.any(axis=0)  # padding is seen by none
    return {kind: parts[kind][seen[parts[kind]]] for kind in model.kinds}


def _grid(model):
    """Returns the number of patches in each direction."""
    if model.preprocessor.grid:  # of a codebook
        return model.preprocessor.grid
    config = model.get_config()
    pairs = zip(config["image_size"], config["patch_size"], strict=True)
    return tuple(size // patch for size, patch in pairs)


# A model of captions, or one that draws


def show_attention(
    report: "Report", model: "Multimodal", trace: figures.Recorded, encoded: Any
) -> None:
    """Prints which share of the attention of each kind goes to which kind."""
    where = places(model, trace, encoded)
    rows = []
    for n in range(model.get_config()["num_layers"]):
        weights = _attention(trace, n)
        for kind, tokens in where.items():
            shares = [
                float(weights[np.ix_(tokens, others)].sum(axis=1).mean())
                for others in where.values()
            ]
            rows.append((n + 1, NAMES[kind], *shares))
    columns = {">layer": "{}", "from": "{}"}
    columns |= {f">to {NAMES[kind]}": "{:.3f}" for kind in where}
    report.table("attention", "Share of the attention, mean over heads", columns, rows)


def _attention(trace, layer):
    """Returns the attention weights of a layer, mean over heads, `(T, T)`."""
    return trace[f"block_{layer}/self_attention/alignment"][0].mean(axis=0)


def attention_maps(
    model: "Multimodal", trace: figures.Recorded, encoded: Any
) -> np.ndarray:
    """Returns how a word attends to the patches while it is written.

    The token before a word predicts it. Of a model that draws, how each id attends to a
    word while it is written, which the token before an id predicts, without the start
    and the end of the caption.

    Returns:
        Mean over the heads of the last layer, `(words, patches)`.
    """
    where = places(model, trace, encoded)
    weights = _attention(trace, model.get_config()["num_layers"] - 1)
    if "codes" in encoded:
        return weights[np.ix_(where["images"], where["texts"][1:-1])].T
    return weights[np.ix_(where["texts"], where["images"])]


def show_codes(report: "Report", model: "Multimodal", inputs: Any) -> None:
    """Prints how many codes of the codebook pictures use, and the error of rebuilding.

    Args:
        report: What is printed and kept.
        model: The model.
        inputs: Pictures: files or arrays.
    """
    pixels = draw_scores.real(model, inputs)
    ids = model.codebook.encode(pixels)
    codes = draw_scores.in_use(ids, model.codebook.num_codes)
    error = float(np.mean((model.codebook.decode(ids) - pixels) ** 2))
    row = (codes["num_codes"], codes["used"], codes["perplexity"], error)
    columns = {">codes": "{:,}", ">used": "{:,}", ">perplexity": "{:.2f}"}
    columns[">error of rebuilt pixels"] = "{:.4f}"
    pictures = f"{len(pixels):,} picture{'s' * (len(pixels) > 1)}"
    report.table("codes", f"The codebook on {pictures}", columns, [row])


# A contrastive model


def contributions(model: "Multimodal", encoded: Any) -> np.ndarray:
    r"""Returns what each pair of a patch and a token of the caption adds to the cosine.

    A vector is the mean of its projected tokens, scaled to length 1, so that

    $$
    \cos = \sum_p \sum_w \frac{(W_a h_p) \cdot (W_b h_w)}{P\, |a|\, T\, |b|}
    $$

    Args:
        model: The model.
        encoded: A picture and a caption, as `encode` returns them.

    Returns:
        `(P, T)`, the tokens of the caption with start and end.
    """
    import keras

    split = keras.Model(model.input, model.get_layer("split").output)
    kinds = ("images", "texts") if "images" in model.kinds else ("audio", "texts")
    parts = dict(zip(model.kinds, split(encoded), strict=True))
    shares = []
    for kind in kinds:
        h = keras.ops.convert_to_numpy(parts[kind])[0]
        kernel = model.get_layer(f"{kind}_projection").kernel
        h = h @ keras.ops.convert_to_numpy(kernel)  # (tokens, D)
        shares.append(h / len(h) / np.linalg.norm(h.mean(axis=0)))
    return shares[0] @ shares[1].T


def show_contributions(report: "Report", parts: np.ndarray, tokens: list[str]) -> None:
    """Prints the cosine of picture and caption, and what each word adds to it."""
    report.data["cosine"] = float(parts.sum())
    of_words = parts.sum(axis=0)
    names = ["(start)", *tokens, "(end)"]
    rows = [(name, float(x)) for name, x in zip(names, of_words, strict=True)]
    title = f"Cosine of picture and caption: {parts.sum():.3f}, the sum of these parts"
    report.table("words", title, {"word": "{}", ">adds": "{:+.3f}"}, rows)


# Experts


def show_experts(report: "Report", model: "Multimodal", example: Example) -> None:
    """Prints which share of the tokens of each kind goes to which expert."""
    x, text = _some(model, example)
    counts, router = routed(model, x, text)
    shares = counts / counts.sum(axis=1, keepdims=True)
    entropies = kerasseq.tracing.routing_information(router)
    by_kind = dict(zip(model.kinds, shares[:, None], strict=True))
    bits = kerasseq.tracing.routing_information(by_kind).mutual_information
    rows = [
        (
            NAMES[kind],
            *map(float, by_kind[kind][0]),
            entropies.local_entropy[kind],
            entropies.global_entropy[kind],
        )
        for kind in model.kinds
    ]
    columns = {"tokens": "{}"}
    columns |= {f">expert {n + 1}": "{:.3f}" for n in range(shares.shape[1])}
    columns |= {">bits of a token": "{:.3f}", ">bits of their mean": "{:.3f}"}
    report.data["information"] = bits
    pictures = f"{len(text):,} picture{'s' * (len(text) > 1)}"
    title = f"Which expert reads which kind, {pictures}; information between kind and "
    title += f"expert {bits:.3f} of {np.log2(len(shares)):.3f} bits"
    report.table("experts", title, columns, rows)


def routed(
    model: "Multimodal", x: Any, texts: list[str]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns how tokens of each kind are routed.

    Args:
        model: A model with experts.
        x: Pictures or sounds.
        texts: Their captions.

    Returns:
        How often each expert was chosen, `(kinds, E)`, and the probabilities of the
        router for each token, `(tokens, E)` by kind.
    """
    experts = model.get_config()["num_experts"]
    layer = f"block_{model.get_config()['num_layers'] - 1}/feed_forward"
    counts = np.zeros((len(model.kinds), experts))
    router: dict[str, list[np.ndarray]] = {kind: [] for kind in model.kinds}
    for row, text in enumerate(texts):  # alone, so that no words are padded
        only = slice(row, row + 1)
        is_dict = isinstance(x, dict)
        one = {name: part[only] for name, part in x.items()} if is_dict else x[only]
        encoded = model.encode(one, [text])
        trace = figures.record(model, encoded)
        chosen = trace[f"{layer}/chosen"][0]  # (T, 2)
        for n, (kind, tokens) in enumerate(places(model, trace, encoded).items()):
            choices = chosen[tokens].ravel().astype(int)
            counts[n] += np.bincount(choices[choices >= 0], minlength=experts)
            router[kind].append(trace[f"{layer}/router"][0, tokens])
    return counts, {kind: np.concatenate(parts) for kind, parts in router.items()}


# Figures


def draw(
    folder: Any, model: "Multimodal", inputs: Any, drawn: list[tuple[str, np.ndarray]]
) -> Any:
    """Draws the picture once for each word, beside the word's map of patches."""
    plots, head = kerasseq.tracing.plots, model.get_config()["head"]
    images = inputs["images"] if isinstance(inputs, dict) else inputs
    image = models.shown(model, images[0])
    names = [textwrap.shorten(word, 20) for word, _ in drawn]
    images = np.stack([image] * len(drawn))
    maps = np.stack([of_frames(model, values) for _, values in drawn])
    if head != "contrastive":
        figure = plots.plot_patches(images, maps, names, TITLES[head])
        return figures.save(figure, folder / "attention.png")
    height, width = (n // m for n, m in zip(image.shape, maps.shape[1:], strict=False))
    pixels = maps.repeat(height, axis=1).repeat(width, axis=2)
    figure = plots.plot_pixels(images, pixels, names, TITLES[head])
    return figures.save(figure, folder / "words.png")


def of_frames(model: "Multimodal", values: np.ndarray) -> np.ndarray:
    """Returns the values of patches as a map; of films the frames beside each other."""
    grid = _grid(model)
    if len(grid) == 2:
        return values.reshape(grid)
    frames = model.get_config()["patch_size"][0]
    tubes = values.reshape(grid).repeat(frames, axis=0)  # (T, rows, columns)
    return models.side_by_side(tubes[..., None])[..., 0]
