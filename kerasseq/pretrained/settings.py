"""The settings of a folder, `config.json`: read one by one, each checked.

Nothing that a file names is looked up or built: numbers are numbers, and words stand in
a table of words, or the folder is refused.
"""

import sys

from kerasseq.core.checks import nearest

REQUIRED = object()


class Settings:
    """A dictionary out of a file, which is not trusted.

    Args:
        values: The dictionary.
        where: The file, for messages.
        task: In a preset of KerasHub with a task: its class and its `Settings`.

    Examples:
        >>> Settings({"n_layer": 2}, "config.json").whole("n_layer")
        2
    """

    def __init__(self, values, where, task=(None, None)):
        self.where, self.task = where, task
        if not isinstance(values, dict):
            raise ValueError(f"{where} is damaged: {values!r} is no table of settings")
        self.values = values

    def __contains__(self, name):
        return self.values.get(name) is not None

    def get(self, name, default=REQUIRED):
        """A setting; what is null counts as not there."""
        value = self.values.get(name)
        if value is not None:
            return value
        if default is REQUIRED:
            raise ValueError(f"{self.where} has no {name}")
        return default

    def whole(self, name, default=REQUIRED):
        """A whole number of at least 1, or the default."""
        value = self.get(name, default)
        if value is default and value is not REQUIRED:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.refuse(name, "a whole number of at least 1")
        return value

    def id(self, name, size, default):
        """The id of a token, below the number of ids."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, "a whole number")
        if not 0 <= value < size:
            self.refuse(name, f"from 0 to {size - 1}")
        return value

    def number(self, name, default=REQUIRED):
        """A number above 0."""
        value = self.get(name, default)
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not 0 < value <= sys.float_info.max:
            self.refuse(name, "a number above 0")
        return float(value)

    def rate(self, name, default=0.0):
        """A number from 0 to below 1."""
        value = self.get(name, default)
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not 0 <= value < 1:
            self.refuse(name, "a number from 0 to below 1")
        return float(value)

    def truth(self, name, default=REQUIRED):
        """True or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value

    def word(self, name, table, default=REQUIRED):
        """What a table says for a word.

        Examples:
            >>> Settings({"act": "gelu"}, "config.json").word("act", {"relu": 1})
            Traceback (most recent call last):
            ...
            ValueError: config.json: act = 'gelu', but kerasseq builds relu. Did you \
mean "relu"?
        """
        value = self.get(name, default)
        if not isinstance(value, str) or value not in table:
            self.refuse(name, ", ".join(table), "kerasseq builds", table)
        return table[value]

    def only(self, **wanted):
        """Raise if a setting is there and has another value than can be built."""
        for name, right in wanted.items():
            value = self.get(name, right)
            if value != right or isinstance(value, bool) != isinstance(right, bool):
                self.refuse(name, repr(right), "kerasseq builds")

    def part(self, name):
        """A table within the table."""
        return Settings(self.get(name), f"{self.where}, {name}")

    def refuse(self, name, right, verb="it must be", table=()):
        """Raise an error that names the setting, its value, and what would be right."""
        value, hint = self.values.get(name), nearest(self.values.get(name), table)
        raise ValueError(
            f"{self.where}: {name} = {value!r}, but {verb} {right}"
            + (f".{hint}" if hint else "")
        )
