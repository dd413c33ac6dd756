"""Heads whose targets are texts: transcripts of sounds, captions of pictures."""

from typing import Any, ClassVar

import numpy as np

from kerasseq.core import checks
from kerasseq.core.types import Config
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.heads import Head, check_no_class_weight
from kerasseq.tasks.preprocessor import Preprocessor, train_tokenizer


class TextHead(Head):
    """The base of the heads with a text for each row.

    A subclass has `targets_of`, and names in `evaluated_by` the method that evaluates,
    as a report needs labels.

    Args:
        preprocessor: That of the model, which has the tokenizer.
    """

    by_length: ClassVar[bool] = True

    def __init__(self, preprocessor: Preprocessor) -> None:
        super().__init__()
        self.preprocessor: Any = preprocessor

    def learned(self, arguments: Config, x: Any, y: Any) -> Config:
        """Returns the argument `tokenizer`, trained on the texts.

        Args:
            arguments: Those of the model, of which `tokenizer` is the name of one.
            x: The inputs, which are not read.
            y: The texts.

        Raises:
            TypeError: If one is not a text.
            ValueError: If there are none.
        """
        if y is None:
            raise ValueError(f"{self.wanted}, received y=None")
        for n, text in enumerate(y):
            if not isinstance(text, str):
                raise TypeError(f"y[{n}] must be a text, received {checks.short(text)}")
        return {"tokenizer": train_tokenizer(arguments["tokenizer"], y)}

    def weighted_targets(
        self, rows: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Returns the ids of texts, and the weights of rows."""
        check_no_class_weight(class_weight)
        ids = self.targets_of(rows, y)
        return ids, sample_weights(sample_weight, len(rows), None)

    def targets_of(self, rows: Any, y: Any) -> list[np.ndarray]:
        """Returns the ids of the text of each row."""
        raise NotImplementedError
