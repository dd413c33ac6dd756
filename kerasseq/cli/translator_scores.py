"""Scores of translators of equal size, with intervals, and their tables.

The BLEU of a model is the mean over its seeds. Its interval of 95 % comes from
bootstrap samples of the held-out pairs, the same for all models; the range is that over
the seeds.
"""

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import contest, runs, verdict
from kerasseq.cli.console import Console, clock, status
from kerasseq.datasets import Pairs

LEARNED = 1.0  # BLEU below which a difference says nothing
QUANTILES = (0.025, 0.975)  # ends of a 95 % interval
KEPT = ("width", "parameters", "tokens", "vocabularies")
COLUMNS = (
    *("model", "seed", "parameters", "width", "bleu", "low", "high"),
    *("bin", "bin_bleu", "names", "copied", "unknown"),
)
ROWS = "held-out pairs"
MOST_SHOWN = 300  # characters of a translation
Found = dict[str, dict[int, dict[str, Any]]]  # results by model and seed


class Data(NamedTuple):
    """Pairs of texts, and the sentence that all models translate.

    Attributes:
        training: The training pairs.
        tested: The held-out pairs.
        sentence: A source.
        reference: Its translation; None for a sentence of the user.
    """

    training: Pairs
    tested: Pairs
    sentence: str
    reference: str | None


def new_names(data: Data) -> list[list[str]]:
    """Returns the names of each held-out pair that the training does not have."""
    texts = [*data.training.sources, *data.training.targets]
    return kerasseq.training.unseen_names(*data.tested, texts)


def stored(folder: pathlib.Path, count: int) -> dict[str, Any] | None:
    """Reads the results of a model; None if it is not finished.

    Args:
        folder: The folder of its run.
        count: Number of held-out pairs.

    Raises:
        ValueError: If they are damaged.
    """

    def check(results):
        texts = [*results["translations"], results["sentence"]]
        if len(texts) != count + 1 or not all(isinstance(t, str) for t in texts):
            raise ValueError(
                f"expected {count} translations, received {len(texts) - 1}"
            )
        for key in ("width", "parameters", "tokens", "seconds"):
            if not results[key] >= 0:
                raise ValueError(f"{key} must be a number, received {results[key]!r}")
        return results

    return contest.read_stored(folder / runs.RESULTS, "translate again", check)


def compare(data: Data, results: Found, samples: int) -> dict[str, Any]:
    """Scores all models.

    Args:
        data: The pairs.
        results: What each model found, by model and seed.
        samples: Number of bootstrap samples.

    Returns:
        Plain data: the scores of each model, and the sentences about them.
    """
    names, models, drawn, copied = new_names(data), {}, {}, {}
    for model, by_seed in results.items():
        with status(f"computing the intervals of {model}"):
            each = [_scores(data, names, r["translations"]) for r in by_seed.values()]
            drawn[model] = _bootstrap(data, by_seed, samples)
        copied[model] = np.mean([scores.pop("copied_in_rows") for scores in each], 0)
        models[model] = {
            **{key: next(iter(by_seed.values()))[key] for key in KEPT},
            "seconds": float(np.median([r["seconds"] for r in by_seed.values()])),
            "bleu": float(np.mean([scores["bleu"] for scores in each])),
            "interval": np.quantile(drawn[model], QUANTILES).tolist(),
            "seeds": dict(zip(map(str, by_seed), each, strict=True)),
            "sentence": next(iter(by_seed.values()))["sentence"],
        }
    return {
        "models": models,
        "names": sum(map(len, names)),
        "sentences": sum(map(bool, names)),
        "sentence": {"source": data.sentence, "reference": data.reference},
        "differences": _differences(models, drawn, len(names)),
        "copying": _copying(models, copied, names),
    }


def _scores(data, names, texts):
    """Computes BLEU, by length as well, and what became of the names, for one seed."""
    sources, references = data.tested
    parts = kerasseq.training.bleu_by_length(sources, texts, references)
    rows = [
        kerasseq.training.name_scores([text], [wanted])
        for text, wanted in zip(texts, names, strict=True)
    ]
    count, copied, unknown = np.sum(rows, axis=0).tolist()
    return {
        "bleu": kerasseq.training.bleu(texts, references),
        "by_length": [part._asdict() for part in parts],
        "names": {"count": count, "copied": copied, "unknown": unknown},
        "copied_in_rows": [row.copied for row in rows],
    }


def _bootstrap(data, by_seed, samples):
    """Computes BLEU on bootstrap samples, the mean over the seeds."""
    return np.mean(
        [
            kerasseq.training.bootstrap_bleu(
                r["translations"], data.tested.targets, samples=samples
            )
            for r in by_seed.values()
        ],
        axis=0,
    )


def _differences(models, drawn, rows):
    """Compares each model with each before it that has the same tokenizer."""
    differences = []
    for first, second in itertools.combinations(models, 2):
        if first.split("-")[1] == second.split("-")[1]:
            scores = [models[name]["bleu"] for name in (second, first)]
            ends = np.quantile(drawn[second] - drawn[first], QUANTILES).tolist()
            difference = verdict.Difference(scores[0] - scores[1], *ends, rows)
            numbers = "BLEU {:.1f} and {:.1f}".format(*scores)
            of_seeds = [_by_seed(models[name]) for name in (second, first)]
            gains = np.subtract(*of_seeds).tolist()
            said = _said(first, second, numbers, difference, ROWS, gains)
            if max(scores) < LEARNED:
                said["better"] = False
                said["sentence"] = (
                    f"Neither {second} nor {first} has learned to translate: "
                    f"{numbers}. Train them longer, with more --steps."
                )
            differences.append(said)
    return differences


def _by_seed(model):
    return [scores["bleu"] for scores in model["seeds"].values()]


def _copying(models, copied, names):
    """Computes how many more new names are copied with sub-words than with words."""
    counts = np.array([len(each) for each in names])
    rows, copying = counts > 0, []
    for model in models:
        other = model.replace("-word", "-bpe")
        if model == other or other not in models or not rows.any():
            continue
        gains = (copied[other] - copied[model])[rows]
        difference = verdict.difference(gains, counts[rows])
        shares = [copied[name].sum() / counts.sum() for name in (other, model)]
        numbers = "share of new names copied {:.3f} and {:.3f}".format(*shares)
        copying.append(_said(model, other, numbers, difference, "sentences"))
    return copying


def _said(first, second, numbers, difference, rows, gains=()):
    """Returns two models, their difference and a sentence, as plain data.

    A model is better or worse if the interval says so, and each seed, too.
    """
    words, seeds = "is not clearly better than", ""
    sure = difference.is_certain or difference.reversed().is_certain
    if sure and any(gain * difference.mean <= 0 for gain in gains):
        listed = ", ".join(f"{gain:+.1f}" for gain in gains)
        seeds = f" The seeds do not agree: {listed}."
    elif sure:
        words = "is better than" if difference.mean > 0 else "is worse than"
    sentence = f"{second} {words} {first}: {numbers}, difference {difference.of(rows)}."
    return {
        "models": [first, second],
        "sentence": sentence + seeds,
        "better": words == "is better than",
        **difference._asdict(),
    }


# Tables


def show(console: Console, results: dict[str, Any]) -> None:
    """Prints the tables, and what is not better than what."""
    models, seeds = results["models"], contest.seeds_of(results["seeds"])
    _show_sizes(console, models, results["steps"])
    bins = next(iter(next(iter(models.values()))["seeds"].values()))["by_length"]
    headings = [f">{b['shortest']}-{b['longest']}" for b in bins]
    rows = []
    for name, each in models.items():
        scores = [s["bleu"] for s in each["seeds"].values()]
        low, high = each["interval"]
        rows.append(
            (
                *(name, f"{each['bleu']:.1f}", f"{low:.1f}-{high:.1f}"),
                f"{min(scores):.1f}-{max(scores):.1f}",
                *(f"{score:.1f}" for score in by_length(each)),
            )
        )
    title = f"BLEU on {results['pairs'][1]:,} held-out pairs, {seeds}; on the right by"
    console.table(
        f"{title} the words of the source",
        ("model", ">BLEU", ">95 %", ">seeds", *headings),
        rows,
    )
    _show_names(console, results, seeds)
    console.table(
        "One sentence, the first seed", ("by", "text"), sentence_rows(results)
    )
    for each in (*results["differences"], *results["copying"]):
        console.write(each["sentence"])


def by_length(model: dict[str, Any]) -> list[float]:
    """Returns BLEU in each bin of lengths, the mean over the seeds."""
    scores = [
        [part["bleu"] for part in each["by_length"]] for each in model["seeds"].values()
    ]
    return np.mean(scores, axis=0).tolist()


def _show_sizes(console, models, steps):
    rows = [
        (
            *(name, f"{each['width']:,}", f"{each['parameters']:,}"),
            *(
                "/".join(f"{n:,}" for n in each["vocabularies"]),
                f"{each['tokens']:.1f}",
            ),
            clock(each["seconds"]),
        )
        for name, each in models.items()
    ]
    columns = ("model", ">width", ">parameters", ">vocabularies", ">tokens", ">time")
    console.table(
        f"Sizes: the width gives all as many parameters, within 5 %; {steps:,} steps",
        columns,
        rows,
    )


def _show_names(console, results, seeds):
    count = results["names"]
    if not count:
        console.write("No held-out pair has a name that the training does not have.")
        return
    rows = []
    for name, each in results["models"].items():
        parts = [s["names"] for s in each["seeds"].values()]
        copied, unknown = (
            100 * float(np.mean([part[key] for part in parts])) / count
            for key in ("copied", "unknown")
        )
        other = 100 - copied - unknown
        rows.append((name, *(f"{share:.1f}" for share in (unknown, copied, other))))
    title = f"{count} names of {results['sentences']} held-out pairs that the training"
    console.table(
        f"{title} does not have, percent, {seeds}",
        ("model", ">UNK", ">copied", ">wrong or missing"),
        rows,
    )


def sentence_rows(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns one sentence, its reference, and its translations by all models."""
    sentence = results["sentence"]
    rows = [("source", sentence["source"])]
    if sentence["reference"] is not None:
        rows.append(("reference", sentence["reference"]))
    models = results["models"].items()
    return rows + [(name, short_text(each["sentence"])) for name, each in models]


def short_text(text: str) -> str:
    """Returns the beginning of a translation that repeats itself without an end.

    Examples:
        >>> len(short_text("the " * 200)), short_text("the cat")
        (300, 'the cat')
    """
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 2]} …"


def rows_of(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a row of the table for each model, seed and bin of lengths."""
    for name, each in results["models"].items():
        low, high = each["interval"]
        for seed, scores in each["seeds"].items():
            for part in scores["by_length"]:
                yield {
                    **{"model": name, "seed": seed, "low": low, "high": high},
                    **{key: each[key] for key in ("parameters", "width")},
                    "bleu": scores["bleu"],
                    "bin": f"{part['shortest']}-{part['longest']}",
                    "bin_bleu": part["bleu"],
                    "names": scores["names"]["count"],
                    "copied": scores["names"]["copied"],
                    "unknown": scores["names"]["unknown"],
                }
