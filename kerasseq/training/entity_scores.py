"""Entities in tags, and their precision, recall and F1.

An entity counts as correct if its type and both its ends are. Tags are BIO (B- begins
an entity and I- continues it) or IOBES (E- ends it, and S- is an entity of one word); O
is outside. By default invalid sequences of tags are read as by `conlleval`, the script
of the CoNLL tasks, and by seqeval in its default mode. With a scheme, only valid spans
are entities, as in seqeval's strict mode with IOB2 or IOBES. Both follow the definition
of these programs; neither is used.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from kerasseq.core.checks import one_of, several, short
from kerasseq.training.label_scores import averages, by_class

SCHEMES = {None: "OBIES", "bio": "OBI", "iobes": "OBIES"}  # prefixes of tags


class Entity(NamedTuple):
    """A span of words.

    Attributes:
        type: Type, such as "LOC"; "_" for tags without a type, such as "B".
        start: Index of the first word.
        end: Index after the last word, so that it is `words[start:end]`.
    """

    type: str
    start: int
    end: int


def entities(tags: Iterable[str], scheme: str | None = None) -> list[Entity]:
    """Finds the entities in the tags of a sentence.

    An entity continues at I- and E- of the same type, unless E- or S- ended it. By
    default all other tags but O begin an entity, also I- after O or another type.

    Args:
        tags: A tag for each word: "O", or a prefix and a type, such as "B-LOC".
        scheme: `"bio"`: entities begin with B-; `"iobes"`: they begin with B- and end
            with E-, or are one S-; other spans are ignored. None: any order of tags.

    Returns:
        A list of `Entity`.

    Raises:
        TypeError: If `tags` is not a list of strings.
        ValueError: If a tag is not one of the scheme, or the scheme is unknown.

    Examples:
        >>> entities(["B-PER", "I-PER", "O", "I-LOC"])
        [Entity(type='PER', start=0, end=2), Entity(type='LOC', start=3, end=4)]
        >>> entities(["B-PER", "I-PER", "O", "I-LOC"], scheme="bio")
        [Entity(type='PER', start=0, end=2)]
    """
    one_of("scheme", scheme, SCHEMES)
    return _entities("tags", several("tags", tags), scheme)


def entity_scores(
    true: Iterable[Iterable[str]],
    predicted: Iterable[Iterable[str]],
    scheme: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Computes precision, recall and F1 of entities.

    Args:
        true: For each sentence a list of true tags.
        predicted: For each sentence a list of predicted tags.
        scheme: How invalid sequences of tags are read, as for `entities`.

    Returns:
        A dictionary with `"precision"`, `"recall"`, `"f1-score"` and `"support"`, the
        number of true entities, for each type, sorted, and for `"micro avg"`, all
        entities together, the usual score; for `"macro avg"`, the mean over the types;
        and for `"weighted avg"`, weighted by support. A quotient of 0 and 0 is 0.

    Raises:
        TypeError: If the tags are not lists of lists of strings.
        ValueError: If the numbers of sentences or of tags differ, or a tag is not one
            of the scheme.

    Examples:
        >>> true = [["B-PER", "I-PER", "O", "B-LOC"]]
        >>> scores = entity_scores(true, [["B-PER", "I-PER", "O", "B-PER"]])
        >>> scores["PER"]["precision"], scores["PER"]["recall"]
        (0.5, 1.0)
        >>> scores["micro avg"]["f1-score"]
        0.5
    """
    one_of("scheme", scheme, SCHEMES)
    true, predicted = several("true", true), several("predicted", predicted)
    if len(true) != len(predicted):
        raise ValueError(
            "`true` and `predicted` must have the same number of sentences, received "
            f"{len(true)} and {len(predicted)}."
        )
    counts = {"correct": Counter(), "predicted": Counter(), "support": Counter()}
    for i, pair in enumerate(zip(true, predicted, strict=True)):
        _count(i, pair, scheme, counts)
    types = sorted(counts["predicted"] | counts["support"])
    columns = [[counter[kind] for kind in types] for counter in counts.values()]
    report = by_class(types, *columns)
    both = by_class(["micro avg"], *([sum(column)] for column in columns))
    return {**report, **both, **averages(report)}


def _count(
    i: int,
    pair: tuple[Iterable[str], Iterable[str]],
    scheme: str | None,
    counts: dict[str, Counter[str]],
) -> None:
    """Adds the entities of sentence i to the counts of each type."""
    named = zip((f"true[{i}]", f"predicted[{i}]"), pair, strict=True)
    tags = {name: several(name, given) for name, given in named}
    if len({len(given) for given in tags.values()}) > 1:
        lengths = " and ".join(str(len(given)) for given in tags.values())
        raise ValueError(
            f"`{'` and `'.join(tags)}` must have the same number of tags, received "
            f"{lengths}. Leave out padding in both."
        )
    here, there = ({*_entities(name, given, scheme)} for name, given in tags.items())
    counts["support"].update(entity.type for entity in here)
    counts["predicted"].update(entity.type for entity in there)
    counts["correct"].update(entity.type for entity in here & there)


def _entities(name: str, tags: list[str], scheme: str | None) -> list[Entity]:
    prefixes, types = [], []
    for i, tag in enumerate(tags):
        prefix, kind = _parts(f"{name}[{i}]", tag, scheme)
        prefixes.append(prefix)
        types.append(kind)
    first = {None: "BIES", "bio": "B", "iobes": "BS"}[scheme]
    last = "ES" if scheme == "iobes" else "BIES"
    spans, start = [], None
    for i, prefix in enumerate([*prefixes, "O"]):
        if start is not None:
            if prefix in "IE" and prefixes[i - 1] in "BI" and types[i] == types[start]:
                continue
            if prefixes[i - 1] in last:
                spans.append(Entity(types[start], start, i))
        start = i if prefix in first else None
    return spans


def _parts(name: str, tag: object, scheme: str | None) -> tuple[str, str]:
    """Splits a tag into prefix and type.

    Examples:
        >>> _parts("tags[0]", "B-LOC", None), _parts("tags[0]", "O", None)
        (('B', 'LOC'), ('O', '_'))
    """
    if not isinstance(tag, str):
        raise TypeError(f"`{name}` must be a string, received {short(tag)}.")
    prefix, _, kind = tag.partition("-")
    allowed = SCHEMES[scheme]
    if len(prefix) != 1 or prefix not in allowed or (prefix == "O" and tag != "O"):
        marks = ", ".join(f"{mark}-" for mark in allowed[1:])
        raise ValueError(
            f"`{name}` must be O or a type after one of {marks}, as in B-LOC, received "
            f"{tag!r}. Convert the tags first."
        )
    return prefix, kind or "_"
