"""Names of classes in the settings of Hugging Face: `id2label` and `label2id`."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kerasseq.pretrained.folders import Settings

DEFAULT = "LABEL_{}"  # of a class without a name


def read_labels(settings: Settings, count: int) -> int | list[str]:
    """Returns the names of the classes; their number if they have none.

    Some published files give two classes one name: these get their number.

    Args:
        settings: The settings of a folder.
        count: The number of classes that the weights have.

    Examples:
        >>> names = {"0": "crane", "1": "owl", "2": "crane"}
        >>> read_labels(Settings({"id2label": names}, "config.json"), 3)
        ['crane (0)', 'owl', 'crane (2)']
        >>> read_labels(Settings({"id2label": {"0": "LABEL_0"}}, "config.json"), 1)
        1
    """
    table = settings.get("id2label", None)
    keys = list(map(str, range(count)))
    if not isinstance(table, dict) or set(table) != set(keys):
        return count
    names = [table[key] for key in keys]
    if not all(isinstance(name, str) for name in names):
        return count
    if all(re.fullmatch(r"LABEL_\d+", name) for name in names):
        return count
    times = Counter(names)
    names = [f"{n} ({i})" if times[n] > 1 else n for i, n in enumerate(names)]
    return names if len(set(names)) == count else count


def label_settings(labels: int | Sequence[Any] | None) -> dict[str, dict[str, Any]]:
    """Returns the settings with the names of the classes.

    Args:
        labels: The names of the classes, or their number; None for none.

    Examples:
        >>> label_settings(["cat", "dog"])["label2id"]
        {'cat': 0, 'dog': 1}
        >>> label_settings(1)
        {'id2label': {'0': 'LABEL_0'}, 'label2id': {'LABEL_0': 0}}
        >>> label_settings(None)
        {}
    """
    if labels is None:
        return {}
    if isinstance(labels, int):
        labels = [DEFAULT.format(n) for n in range(labels)]
    return {
        "id2label": {str(n): str(name) for n, name in enumerate(labels)},
        "label2id": {str(name): n for n, name in enumerate(labels)},
    }
