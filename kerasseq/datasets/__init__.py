"""Data that needs no network: generated, or shipped with what is installed anyway."""

from kerasseq.datasets.catalogue import Entry, catalogue, sample
from kerasseq.datasets.parentheses import (
    SLIDE_ROWS,
    Parentheses,
    is_balanced,
    parentheses,
)
from kerasseq.datasets.series import Series, calendar_features, series, windows
from kerasseq.datasets.text import python_reference, text_file

__all__ = [
    "SLIDE_ROWS",
    "Entry",
    "Parentheses",
    "Series",
    "calendar_features",
    "catalogue",
    "is_balanced",
    "parentheses",
    "python_reference",
    "sample",
    "series",
    "text_file",
    "windows",
]
