"""The table of worked examples in the page of the slides is that of the data."""

import re

import pytest

from docs import examples
from kerasseq import datasets

pytestmark = pytest.mark.once("the documentation")


def test_the_table_is_that_of_the_data():
    page = examples.PAGE.read_text(encoding="utf-8")
    assert page.count(examples.BEGIN) == page.count(examples.END) == 1
    assert examples.written(page) == page  # else: python -m docs.examples
    anchors = re.findall(r'<a id="([a-e])-(\d+)"></a>', page)
    found = [f"{letter.upper()}:{line}" for letter, line in anchors]
    assert found == [example.id for example in datasets.slides()]
