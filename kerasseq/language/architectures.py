"""Published architectures by name: the table of large language models, and its kin.

`architectures.toml` has a row for each, with the paper that it is from, and with what
had to be assumed where the paper is silent. Course slides C and E.

Loads no Keras.
"""

import functools
import pathlib
from collections.abc import Mapping

from kerasseq.core.checks import nearest
from kerasseq.language.architecture import Architecture

TABLE = pathlib.Path(__file__).with_name("architectures.toml")


class Architectures(Mapping):
    """The rows of the table by name, in its order.

    Examples:
        >>> architectures["llama_65b"].feed_forward
        'swiglu'
        >>> list(architectures)[:4]
        ['gpt3', 'pangu_alpha', 'opt', 'palm']
    """

    @functools.cached_property
    def _rows(self):
        import tomllib  # only for who looks a row up

        table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
        rows = {}
        for name, row in table.items():
            like = rows.get(row.pop("like", None), {})
            rows[name] = {k: v for k, v in like.items() if k != "note"} | row
        return {name: Architecture(name=name, **row) for name, row in rows.items()}

    def __getitem__(self, name):
        if name not in self._rows:
            raise KeyError(_unknown(name))
        return self._rows[name]

    def __contains__(self, name):
        return name in self._rows

    def __iter__(self):
        return iter(self._rows)

    def __len__(self):
        return len(self._rows)

    def __repr__(self):
        return f"Architectures({', '.join(self)})"


architectures = Architectures()


def find(architecture: "str | Architecture") -> Architecture:
    """An architecture by its name, or as it is.

    Raises:
        TypeError: If it is neither.
        ValueError: If the name is unknown.

    Examples:
        >>> find("GPT-3")
        Traceback (most recent call last):
        ...
        ValueError: there is no architecture "GPT-3". Did you mean "gpt3"?
    """
    if isinstance(architecture, Architecture):
        return architecture
    if not isinstance(architecture, str):
        raise TypeError(
            "architecture must be a name or a row of models.architectures, got "
            f"{architecture!r}"
        )
    if architecture not in architectures:
        raise ValueError(_unknown(architecture))
    return architectures[architecture]


def _unknown(name):
    written = str(name).lower().replace("-", "_")  # as authors write it: T5-11B
    return f'there is no architecture "{name}".{nearest(written, architectures)}'
