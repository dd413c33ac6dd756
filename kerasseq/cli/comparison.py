"""Scores of several learners on the same test texts, with intervals, and their tables.

The F1 of a learner is the mean over its seeds. Its interval of 95 % comes from
bootstrap samples of the test texts, which are the same for all learners; the range is
that over the seeds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import contest, labeled, verdict
from kerasseq.cli.console import PLAIN_WIDTH, Console, clock
from kerasseq.cli.learners import is_simple

MACRO = "macro avg"
QUANTILES = (0.025, 0.975)  # ends of a 95 % interval
PADDING = 3  # of a column of a table
KEYS = ("precision", "recall", "f1")
SCORES = ("precision", "recall", "f1-score")  # as in a `LabelReport`
COLUMNS = (
    *("learner", "seed", "label", *KEYS, "f1_low", "f1_high"),
    *("support", "seconds"),
)

Predictions = dict[str, dict[int, tuple[np.ndarray, float]]]


def compare(
    y: np.ndarray,
    labels: Sequence[str],
    predictions: Predictions,
    *,
    groups: dict[str, list[str]],
    samples: int,
) -> dict[str, Any]:
    """Scores all learners.

    Args:
        y: 0 or 1 of shape `(texts, labels)`.
        labels: The names of the labels.
        predictions: Predictions of the same shape, and the seconds that each took, by
            learner and seed.
        groups: Labels whose mean F1 is of interest, by the title of the mean.
        samples: Number of bootstrap samples.

    Returns:
        Plain data: for each learner the scores of each label, of groups and of the
        mean, with interval and range; for each label who is best; for each network
        whether it beats the best simple model.
    """
    means = {**groups, MACRO: list(labels)}
    learners, drawn = {}, {}
    for name, each in predictions.items():
        by_seed = {seed: predicted for seed, (predicted, _) in each.items()}
        rows = {seed: _scores(y, p, labels, means) for seed, p in by_seed.items()}
        drawn[name] = _bootstrap(y, by_seed, labels, means, samples)
        learners[name] = {
            "scores": _summary(rows, drawn[name]),
            "seeds": {str(seed): row for seed, row in rows.items()},
            "seconds": float(np.median([took for _, took in each.values()])),
        }
    return {
        "learners": learners,
        "support": dict(zip(labels, y.sum(axis=0).tolist(), strict=True)),
        "groups": groups,
        "winners": _winners(learners, drawn),
        "verdicts": _verdicts(learners, drawn, len(y)),
    }


def _scores(y, predicted, labels, means):
    """Computes precision, recall and F1 of each label and each mean, for one seed."""
    rows = [
        [[labels[n] for n in np.flatnonzero(row)] for row in part]
        for part in (y, predicted)
    ]
    report = kerasseq.training.label_report(*rows, labels, multi_label=True).scores
    scores = {
        name: {
            key: report[name][score] for key, score in zip(KEYS, SCORES, strict=True)
        }
        for name in labels
    }
    for title, names in means.items():
        scores[title] = {
            key: float(np.mean([scores[name][key] for name in names])) for key in KEYS
        }
    return scores


def _bootstrap(y, by_seed, labels, means, samples):
    """Computes F1 on bootstrap samples, the mean over the seeds, by label and mean."""
    f1 = np.mean(
        [
            kerasseq.training.bootstrap_f1(y, p, samples=samples)
            for p in by_seed.values()
        ],
        axis=0,
    )
    drawn = dict(zip(labels, f1.T, strict=True))
    for title, names in means.items():
        drawn[title] = np.mean([drawn[name] for name in names], axis=0)
    return drawn


def _summary(rows, drawn):
    """Computes the means over the seeds, with the interval and the range of F1."""
    summary = {}
    for name, values in drawn.items():
        scores = [row[name] for row in rows.values()]
        f1 = [each["f1"] for each in scores]
        low, high = np.quantile(values, QUANTILES).tolist()
        summary[name] = {
            **{key: float(np.mean([each[key] for each in scores])) for key in KEYS},
            **{"low": low, "high": high, "min": min(f1), "max": max(f1)},
        }
    return summary


def _winners(learners, drawn):
    """Finds each label's two best learners, and the interval of their difference."""
    if len(learners) < 2:
        return {}
    winners = {}
    for label in next(iter(drawn.values())):
        f1 = {name: each["scores"][label]["f1"] for name, each in learners.items()}
        first, second = sorted(f1, key=lambda name: -f1[name])[:2]
        difference = drawn[first][label] - drawn[second][label]
        winners[label] = {
            "best": first,
            "f1": f1[first],
            "next": second,
            "next_f1": f1[second],
            "difference": np.quantile(difference, QUANTILES).tolist(),
        }
    return winners


def _verdicts(learners, drawn, rows):
    """Compares the mean F1 of each network with that of the best simple model."""
    f1 = {name: each["scores"][MACRO]["f1"] for name, each in learners.items()}
    simple = {name: score for name, score in f1.items() if is_simple(name)}
    verdicts = {}
    for name, score in f1.items():
        if not simple or name in simple:
            continue
        best = verdict.best_of(simple)
        ends = np.quantile(drawn[name][MACRO] - drawn[best][MACRO], QUANTILES).tolist()
        gain = verdict.Difference(score - simple[best], *ends, rows)
        words = name, score, simple, f"F1, {MACRO}", gain, ["more rows", "--epochs"]
        verdicts[name] = verdict.verdict(*words, rows="held-out texts")
    return verdicts


# Tables


def show(console: Console, results: dict[str, Any]) -> None:
    """Prints the tables."""
    groups, learners = results["groups"], results["learners"]
    columns = ("learner", f">{MACRO}", ">95 %", ">seeds", *(f">{g}" for g in groups))
    rows = [
        (
            name,
            f"{(s := each['scores'][MACRO])['f1']:.3f}",
            f"{s['low']:.3f}-{s['high']:.3f}",
            f"{s['min']:.3f}-{s['max']:.3f}",
            *(f"{each['scores'][g]['f1']:.3f}" for g in groups),
            f"{each['seconds']:.1f}",
        )
        for name, each in learners.items()
    ]
    seeds = contest.seeds_of(results["seeds"])
    title = f"F1 on {results['texts'][1]:,} held-out texts, {seeds}"
    console.table(title, (*columns, ">seconds"), rows)
    shown = shown_labels(results)
    titles = ("Precision, percent", "Recall, percent", "F1, percent")
    for key, title in zip(KEYS, titles, strict=True):
        console.table(title, *_by_label(results, shown, key))
    if len(shown) < len(results["support"]):
        count = len(results["support"]) - len(shown)
        console.write(f"and {count} rarer labels, in comparison.csv")
    _show_winners(console, results, shown)
    for each in results["verdicts"].values():
        console.write(each["sentence"])
    labeled.show_repeated(console, results["repeated"], results["texts"][1], "texts")
    if results["pretraining"]:
        of_bert = results["pretraining"]
        console.write(
            f"bert was pre-trained once, on {of_bert['texts']:,} texts in "
            f"{of_bert['steps']:,} steps, which took {clock(of_bert['seconds'])} "
            f"minutes: {of_bert['tokens_accuracy']:.1%} of the masked tokens were "
            "right."
        )


def _by_label(results, shown, key):
    rows = [("support", *(str(results["support"][label]) for label in shown))]
    rows += [
        (name, *(f"{100 * each['scores'][label][key]:.0f}" for label in shown))
        for name, each in results["learners"].items()
    ]
    return ("learner", *(f">{label}" for label in shown)), rows


def shown_labels(results: dict[str, Any]) -> list[str]:
    """Returns the labels that fit into a table, the most frequent ones, in order."""
    support = results["support"]
    room = PLAIN_WIDTH - PADDING - max(map(len, results["learners"]))
    chosen = set()
    for label in sorted(support, key=lambda name: -support[name]):
        room -= PADDING + max(3, len(label))
        if room < 0:
            break
        chosen.add(label)
    return [label for label in support if label in chosen]


def _show_winners(console, results, shown):
    rows = []
    for label in (*shown, *results["groups"], MACRO):
        if each := results["winners"].get(label):
            low, high = each["difference"]
            sure = "*" if low > 0 else " "
            rows.append(
                (
                    *(label, each["best"], f"{each['f1']:.2f}"),
                    *(each["next"], f"{each['next_f1']:.2f}"),
                    f"{low:+.2f} to {high:+.2f} {sure}",
                )
            )
    if rows:
        columns = ("label", "best", ">F1", "next", ">F1", ">difference")
        console.table(
            "Who is best at which label; difference: interval of 95 %, * above 0",
            columns,
            rows,
        )


def rows_of(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the scores of each learner, seed and label, and the means over seeds."""
    for name, each in results["learners"].items():
        parts = {**each["seeds"], "mean": each["scores"]}
        for seed, scores in parts.items():
            for label, row in scores.items():
                row = {
                    **{"learner": name, "seed": seed, "label": label},
                    **{key: row[key] for key in KEYS},
                    **{"f1_low": row.get("low"), "f1_high": row.get("high")},
                    "support": results["support"].get(label),
                    "seconds": each["seconds"] if seed == "mean" else None,
                }
                yield {
                    key: round(value, 6) if isinstance(value, float) else value
                    for key, value in row.items()
                }
