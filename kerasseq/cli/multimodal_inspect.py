"""What happens between pictures and words inside a model: attention, parts, experts."""

import argparse
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import figures, image_data, multimodal_data, multimodal_predict
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.console import status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.multimodal_data import CAPTIONS, Captioned

if TYPE_CHECKING:
    from kerasseq.cli.inspect import Report

ROWS = 64  # held-out pictures whose tokens are counted by expert
DRAWN = 16  # words, each with its map
NAMES = {"images": "patches", "audio": "sound", "texts": "words"}


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
    model: "kerasseq.models.Multimodal",
    record: dict[str, Any] | None,
    args: argparse.Namespace,
) -> Example:
    """Returns the picture that was named, or the first that was held out.

    Args:
        model: The model.
        record: The record of its run, or None.
        args: Arguments of `kerasseq inspect`.
    """
    task = multimodal_predict.task_of(args.folder, record)
    if args.layer is not None:
        raise UsageError("--layer is for other models: leave it out")
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
        advice = "Give a caption with --text"
        given = multimodal_predict.of_run(record, args.folder, advice)
        given = multimodal_predict.known_captions(model, *given)
        names = [{"file": args.file}]
        (row,) = multimodal_predict.nearest_captions(model, inputs, names, given)
        text = row["nearest_caption"]
    if not text.strip():
        raise ValueError("--text must be a caption, received an empty one")
    multimodal_predict.check_words(model, [text], ["--text"])
    return Example(inputs, text, held_out)


def written(model: "kerasseq.models.Multimodal", inputs: Any) -> str | None:
    """Returns the caption that a model writes for a picture, if it can be read again.

    One of parts of characters, at the begin of the training, takes more tokens then.
    """
    (text,) = model.describe(inputs)
    count = len(model.preprocessor.tokenizer.encode(text)) if text.strip() else 0
    return text if 0 < count <= model.preprocessor.longest else None


def show(
    report: "Report", model: "kerasseq.models.Multimodal", example: Example
) -> None:
    """Prints and draws what happens between a picture and its caption."""
    report.data["caption"] = example.text
    report.console.write(f"Caption: {example.text}")
    with multimodal_data.named(["--text"]):
        encoded = model.encode(example.inputs, [example.text])
    tokens = words(model, example.text)
    with status("tracing the model"):
        trace = figures.record(model, encoded)
    if model.get_config()["head"] == "caption":
        show_attention(report, model, trace, encoded)
        maps = attention_maps(model, trace, encoded)[: len(tokens)]
        title = "Attention to the patches while each word is written, percent"
    else:
        parts = contributions(model, encoded)
        show_contributions(report, parts, tokens)
        maps = parts[:, 1:-1].T[: len(tokens)]
        title = "What each patch and word add to the cosine: red more, blue less"
    if model.get_config()["num_experts"] is not None:
        show_experts(report, model, example)
    if "images" in model.kinds:
        drawn = list(zip(tokens, maps, strict=True))[:DRAWN]
        report.draw(lambda folder: [draw(folder, model, encoded, drawn, title)])


def words(model: "kerasseq.models.Multimodal", text: str) -> list[str]:
    """Returns the tokens of a caption, as text."""
    tokenizer = model.preprocessor.tokenizer
    return [tokenizer.decode([n]).strip() or "␣" for n in tokenizer.encode(text)]


def places(
    model: "kerasseq.models.Multimodal", trace: figures.Recorded, encoded: Any
) -> dict[str, np.ndarray]:
    """Returns the places of the real tokens of each kind in the sequence."""
    mask = trace["block_0/self_attention/mask"][0, 0]  # (T, T)
    every = np.arange(mask.shape[1])
    count = encoded["ids"].shape[1]
    end, start = len(every) - count, 0
    if "codes" in encoded:  # words come before the patches that are drawn
        real = mask.any(axis=0)
        return {
            "images": every[count:],
            "texts": every[:count][real[:count]],
        }
    if "images" in model.kinds:
        sizes = [n // p for n, p in zip(*_sizes(model), strict=True)]
        start = int(np.prod(sizes))
    parts = {"images": every[:start], "audio": every[start:end], "texts": every[end:]}
    seen = mask.any(axis=0)  # padding is seen by none
    return {kind: parts[kind][seen[parts[kind]]] for kind in model.kinds}


def _sizes(model):
    config = model.get_config()
    return config["image_size"], config["patch_size"]


# A model of captions


def show_attention(
    report: "Report",
    model: "kerasseq.models.Multimodal",
    trace: figures.Recorded,
    encoded: Any,
) -> None:
    """Prints which share of the attention of each kind goes to which kind."""
    where = places(model, trace, encoded)
    rows = []
    for n in range(model.get_config()["num_layers"]):
        weights = trace[f"block_{n}/self_attention/alignment"][0].mean(axis=0)
        for kind, tokens in where.items():
            shares = [
                float(weights[np.ix_(tokens, others)].sum(axis=1).mean())
                for others in where.values()
            ]
            rows.append((n + 1, NAMES[kind], *shares))
    columns = {">layer": "{}", "from": "{}"}
    columns |= {f">to {NAMES[kind]}": "{:.3f}" for kind in where}
    report.table("attention", "Share of the attention, mean over heads", columns, rows)


def attention_maps(
    model: "kerasseq.models.Multimodal", trace: figures.Recorded, encoded: Any
) -> np.ndarray:
    """Returns how a word attends to the patches while it is written.

    The token before a word predicts it.

    Returns:
        Mean over the heads of the last layer, `(words, patches)`.
    """
    where, last = places(model, trace, encoded), model.get_config()["num_layers"] - 1
    weights = trace[f"block_{last}/self_attention/alignment"][0].mean(axis=0)
    return weights[np.ix_(where["texts"], where["images"])]


# A contrastive model


def contributions(model: "kerasseq.models.Multimodal", encoded: Any) -> np.ndarray:
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


def show_experts(
    report: "Report",
    model: "kerasseq.models.Multimodal",
    example: Example,
) -> None:
    """Prints which share of the tokens of each kind goes to which expert."""
    x, text = example.inputs, [example.text]
    held_out = example.held_out
    if held_out is not None:
        some = multimodal_data.take(held_out, range(min(ROWS, len(held_out.texts))))
        some = models.with_known_words(model.preprocessor.tokenizer, some)
        x, text = multimodal_data.inputs(some), some.texts
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
    model: "kerasseq.models.Multimodal", x: Any, texts: list[str]
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
        one = _row(x, row)
        encoded = model.encode(one, [text])
        trace = figures.record(model, encoded)
        chosen = trace[f"{layer}/chosen"][0]  # (T, 2)
        for n, (kind, tokens) in enumerate(places(model, trace, encoded).items()):
            found = chosen[tokens].ravel().astype(int)
            counts[n] += np.bincount(found[found >= 0], minlength=experts)
            router[kind].append(trace[f"{layer}/router"][0, tokens])
    return counts, {kind: np.concatenate(parts) for kind, parts in router.items()}


def _row(x, row):
    if isinstance(x, dict):
        return {name: part[row : row + 1] for name, part in x.items()}
    return x[row : row + 1]


# Figures


def draw(
    folder: Any,
    model: "kerasseq.models.Multimodal",
    encoded: Any,
    drawn: list[tuple[str, np.ndarray]],
    title: str,
) -> Any:
    """Draws the picture once for each word, beside the word's map of patches."""
    plots = kerasseq.tracing.plots
    image = models.shown(model, encoded["images"][0])
    names = [textwrap.shorten(word, 20) for word, _ in drawn]
    images = np.stack([image] * len(drawn))
    maps = np.stack([of_frames(model, values) for _, values in drawn])
    if model.get_config()["head"] == "caption":
        figure = plots.plot_patches(images, maps, names, title)
        return figures.save(figure, folder / "attention.png")
    height, width = (n // m for n, m in zip(image.shape, maps.shape[1:], strict=False))
    pixels = maps.repeat(height, axis=1).repeat(width, axis=2)
    figure = plots.plot_pixels(images, pixels, names, title)
    return figures.save(figure, folder / "words.png")


def of_frames(model: "kerasseq.models.Multimodal", values: np.ndarray) -> np.ndarray:
    """Returns the values of patches as a map; of films the frames beside each other."""
    size, patch = _sizes(model)
    sizes = [n // p for n, p in zip(size, patch, strict=True)]
    if len(sizes) == 2:
        return values.reshape(sizes)
    tubes = values.reshape(sizes).repeat(patch[0], axis=0)  # (T, rows, columns)
    return models.side_by_side(tubes[..., None])[..., 0]
