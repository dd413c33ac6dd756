"""One component of a `tokenizer.json`: its settings, and its place for messages."""

from kerasseq.core.schema import check, fault

REQUIRED = object()


class Part:
    """A dictionary of a file that knows where in the file it is.

    Args:
        content: The dictionary.
        path: The file, for messages.
        place: The keys that lead to it, for example `"normalizer.normalizers[0]"`.

    Raises:
        ValueError: If `content` is not a dictionary.
    """

    def __init__(self, content, path, place: str = ""):
        self.path, self.place, self.content = path, place, content
        self._checked(content, {str: object}, place)

    def get(self, key: str, schema, default=REQUIRED):
        """Return the value of a key.

        Args:
            key: The key.
            schema: What it must be, as `kerasseq.core.schema` describes.
            default: The value if the key is missing or null.

        Raises:
            ValueError: If the key is missing and required, or does not fit.
        """
        value = self.content.get(key)
        if value is None and default is not REQUIRED:
            return default
        return self._checked(value, schema, self.key(key))

    def choice(self, key: str, choices, default=REQUIRED):
        """Return a string that must be one of several."""
        value = self.get(key, str, default)
        if value not in choices:
            self.refuse(key, f"Known values are {', '.join(choices)}. ")
        return value

    def part(self, key: str) -> "Part":
        """Return the dictionary under a key."""
        return Part(self.content.get(key), self.path, self.key(key))

    def parts(self, key: str) -> list["Part"]:
        """Return the dictionaries of a list under a key; none if there is no list."""
        return [
            Part(each, self.path, f"{self.key(key)}[{number}]")
            for number, each in enumerate(self.get(key, [object], []))
        ]

    def component(self, table: dict):
        """Build the component that `type` names, by a table of builders.

        Raises:
            ValueError: If the table does not have it.
        """
        kind = self.get("type", str)
        if kind not in table:
            self.refuse("type", f"Known are {', '.join(table)}. ")
        return table[kind](self)

    def optional(self, key: str, table: dict):
        """Build the component under a key; None if there is none."""
        if self.content.get(key) is None:
            return None
        return self.part(key).component(table)

    def key(self, key: str) -> str:
        """The keys that lead to one of this dictionary's keys."""
        return f"{self.place}.{key}" if self.place else key

    def refuse(self, key: str, hint: str = ""):
        """Raise the `ValueError` of a setting that kerasseq does not support."""
        raise ValueError(
            f"{self.path}: {self.key(key)} = {repr(self.content.get(key))[:90]} is not "
            f"supported by kerasseq, which would give other ids. {hint}Use the package "
            "tokenizers for this file"
        )

    def damaged(self, key: str, expected: str, received):
        """Raise the `ValueError` of a value that no file can have."""
        self._damaged(fault(self.key(key), expected, received))

    def _checked(self, value, schema, place):
        try:
            return check(value, schema, place)
        except (TypeError, ValueError) as error:
            self._damaged(error)

    def _damaged(self, error):
        raise ValueError(
            f"{self.path} is damaged: {error}. Get the file anew"
        ) from error
