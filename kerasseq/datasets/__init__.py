"""Data sets that are generated, or included in installed packages.

Only `download_pairs` uses the network.
"""

from kerasseq.datasets.catalogue import Entry, catalogue, generated_pairs, sample
from kerasseq.datasets.dates import dates
from kerasseq.datasets.number_names import number_names
from kerasseq.datasets.pair_downloads import PairSource, download_pairs, pair_sources
from kerasseq.datasets.pair_files import Problem, Report, read_pairs
from kerasseq.datasets.pairs import Pairs, split
from kerasseq.datasets.parentheses import (
    Parentheses,
    is_balanced,
    parentheses,
)
from kerasseq.datasets.series import Series, calendar_features, series, windows
from kerasseq.datasets.symbol_tasks import (
    copy_task,
    reverse_task,
    sort_task,
    symbol_ids,
)
from kerasseq.datasets.text import python_reference, text_file

__all__ = [
    "Entry",
    "PairSource",
    "Pairs",
    "Parentheses",
    "Problem",
    "Report",
    "Series",
    "calendar_features",
    "catalogue",
    "copy_task",
    "dates",
    "download_pairs",
    "generated_pairs",
    "is_balanced",
    "number_names",
    "pair_sources",
    "parentheses",
    "python_reference",
    "read_pairs",
    "reverse_task",
    "sample",
    "series",
    "sort_task",
    "split",
    "symbol_ids",
    "text_file",
    "windows",
]
