"""The list of data sets, with samples of each, for `kerasseq data`."""

import functools
import platform
from typing import Any, NamedTuple

from kerasseq.core.checks import one_of, random_generator, whole_number
from kerasseq.core.files import table_beside
from kerasseq.datasets.analogies import analogies
from kerasseq.datasets.conversations import conversations
from kerasseq.datasets.corrected_sentences import corrections
from kerasseq.datasets.counting import counting
from kerasseq.datasets.dates import dates
from kerasseq.datasets.family_sentences import family_sentences
from kerasseq.datasets.melody_grammar import melodies
from kerasseq.datasets.morse import morse, morse_code
from kerasseq.datasets.named_sentences import named_sentences
from kerasseq.datasets.names import names_by_language
from kerasseq.datasets.number_names import number_names
from kerasseq.datasets.pairs import Pairs
from kerasseq.datasets.parentheses import parentheses
from kerasseq.datasets.python_tokens import python_tokens
from kerasseq.datasets.scenes import scenes
from kerasseq.datasets.series import series
from kerasseq.datasets.symbol_tasks import copy_task, reverse_task, sort_task
from kerasseq.datasets.text import python_reference


class Entry(NamedTuple):
    """Description of a data set.

    Attributes:
        name: Name, as for `sample`.
        task: The task.
        size: Size of the data set.
        source: Source of the data.
        license: License.
        description: One sentence.
        call: The call that returns the data.
        package: The package that is required beside kerasseq's own, or None.
    """

    name: str
    task: str
    size: str
    source: str
    license: str
    description: str
    call: str
    package: str | None = None


def _named(count: int, *, seed: int | None = 0, **options: Any) -> Pairs:
    """Returns sentences with names, and their translations."""
    made = named_sentences(count, seed=seed, **options)
    return Pairs([each.source for each in made], [each.target for each in made])


_PAIRS = {
    "named": _named,
    "numbers-fr": functools.partial(number_names, target="fr"),
    "numbers-de": functools.partial(number_names, target="de"),
    "corrections": corrections,
    "dates": dates,
    "copy": copy_task,
    "reverse": reverse_task,
    "sort": sort_task,
}


def catalogue() -> list[Entry]:
    """Lists the data sets.

    Returns:
        A list of `Entry`.

    Examples:
        >>> [entry.name for entry in catalogue() if entry.task == "forecasting"]
        ['ar', 'market', 'weather', 'sunspots', 'co2']
    """
    values = {
        "characters": f"{len(python_reference()):,}",
        "python": platform.python_version(),
    }
    table = table_beside(__file__, "catalogue")
    return [
        Entry(name, **{**entry, "size": entry["size"].format(**values)})
        for name, entry in table.items()
    ]


def sample(name: str, count: int = 5, seed: int | None = 0) -> list[str]:
    """Returns a few items of a data set as lines of text.

    Args:
        name: A name of the catalogue.
        count: Number of lines.
        seed: Random seed.

    Returns:
        At most `count` strings. For a text or a series they are consecutive, from a
        random position. Pairs have a tab between source and target, as for
        `read_pairs`.

    Raises:
        ImportError: If the data set needs a package that is not installed.
        ValueError: If the name is unknown.

    Examples:
        >>> print(sample("parentheses-plain", count=1, seed=14)[0])
        [1, 1, -1, -1, 1, -1] balanced
    """
    one_of("name", name, [entry.name for entry in catalogue()])
    count = whole_number("count", count, at_least=1)
    if name.startswith("parentheses"):
        colors = 1 if name == "parentheses-plain" else 5
        data = parentheses(count, colors=colors, seed=seed)
        words = ("not balanced", "balanced")
        pairs = zip(data.sequences, data.labels, strict=True)
        return [f"{sequence} {words[label]}" for sequence, label in pairs]
    if name in _LINES:
        return _LINES[name](count, seed)
    if name in _PAIRS:
        pairs = zip(*generated_pairs(name, count, seed=seed), strict=True)
        return [f"{source}\t{target}" for source, target in pairs]
    if name == "python-reference":
        lines = [line for line in python_reference().splitlines() if line]
        return _run(lines, count, seed)
    data = series(name, seed=seed)
    steps = range(len(data.values)) if data.dates is None else data.dates
    pairs = zip(steps, data.values, strict=True)
    return _run([f"{step} {value:.2f}" for step, value in pairs], count, seed)


def generated_pairs(
    name: str, count: int, *, seed: int | None = 0, **options: Any
) -> Pairs:
    """Generates the pairs of a data set of the catalogue.

    Args:
        name: "named", "numbers-fr", "numbers-de", "corrections", "dates", "copy",
            "reverse" or "sort".
        count: Number of pairs.
        seed: Random seed.
        **options: Options of the function that generates them, such as `max_length`.

    Returns:
        The `Pairs`.

    Raises:
        ImportError: If the data set needs a package that is not installed.
        ValueError: If the name is unknown.

    Examples:
        >>> generated_pairs("reverse", 1, seed=1, min_length=3, max_length=3)
        Pairs(sources=['efh'], targets=['hfe'])
    """
    one_of("name", name, list(_PAIRS))
    return _PAIRS[name](count, seed=seed, **options)


def _names(count: int, seed) -> list[str]:
    """Returns names with their languages."""
    data, _ = names_by_language(test=0, seed=seed)
    pairs = zip(data.texts[:count], data.labels[:count], strict=True)
    return [f"{text} {data.names[label]}" for text, label in pairs]


def _tokens(count: int, seed) -> list[str]:
    """Returns lines of Python, each word with its tag."""
    pairs = zip(*python_tokens(count, seed=seed), strict=True)
    return [" ".join(map("/".join, zip(*pair, strict=True))) for pair in pairs]


def _counting(count: int, seed) -> list[str]:
    """Returns sentences that follow each other."""
    documents = counting(count, seed=seed)  # each has at least one
    return [sentence for document in documents for sentence in document][:count]


def _family(count: int, seed) -> list[str]:
    """Returns French sentences with their labels."""
    data, _ = family_sentences(count, test=0, seed=seed)
    pairs = zip(data.texts, data.labels, strict=True)
    return [f"{text}\t{' '.join(labels)}" for text, labels in pairs]


def _analogies(count: int, seed) -> list[str]:
    """Returns sentences for word vectors."""
    return analogies(12 * count, seed=seed).sentences[:count]  # of at most 12 words


def _conversations(count: int, seed) -> list[str]:
    """Returns questions with their answers."""
    talks = conversations().messages(count, seed=seed)
    return ["\t".join(message["content"] for message in talk) for talk in talks]


def _morse(count: int, seed) -> list[str]:
    """Returns messages with their length as sound, and their code."""
    pairs = zip(*morse(count, sampling_rate=8000, seed=seed), strict=True)
    return [f"{t}\t{len(x) / 8000:.1f} s\t{morse_code(t)}" for x, t in pairs]


def _scenes(count: int, seed) -> list[str]:
    """Returns captions of pictures, of films, and of pictures of two shapes in turn."""
    kinds = ({}, {"frames": 4}, {"objects": 2})
    texts = [scenes(count, seed=seed, **kind).texts for kind in kinds]
    return [texts[n % len(kinds)][n] for n in range(count)]


_LINES = {
    "analogies": _analogies,
    "conversations": _conversations,
    "counting": _counting,
    "family": _family,
    "melodies": lambda count, seed: melodies(count, seed=seed),
    "morse": _morse,
    "names": _names,
    "python-tokens": _tokens,
    "scenes": _scenes,
}


def _run(lines: list[str], count: int, seed) -> list[str]:
    """Returns `count` consecutive lines."""
    last = max(0, len(lines) - count)
    start = int(random_generator(seed).integers(last + 1))
    return lines[start : start + count]
