"""What was learned by counting, on disk: one JSON file per model.

Left out: pickles, which can run code, and binary arrays.
"""

from kerasseq.text.vocabulary_file import read_vocabulary, write_vocabulary


class Saved:
    """A model with `get_config` and `from_config` that goes to a file and back.

    Floating-point numbers come back with every bit.
    """

    def save(self, path) -> None:
        """Write the model to a JSON file, whole or not at all.

        Args:
            path: Where to write, for example `"model.json"`.

        Raises:
            ValueError: Before `fit`.
        """
        self._check_fitted()
        write_vocabulary(path, _format(type(self)), self.get_config())

    @classmethod
    def load(cls, path):
        """Read a model that `save` wrote.

        Args:
            path: The file.

        Returns:
            An equal model.

        Raises:
            ValueError: If the file is damaged or of another kind; the text says which.
        """
        config = read_vocabulary(path, _format(cls))
        try:
            model = cls.from_config(config)
            model._check_fitted()
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        return model


def _format(cls) -> str:
    return f"kerasseq.{cls.__name__}"
