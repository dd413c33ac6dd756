"""Names of classes in config.json of Hugging Face."""

import json

import numpy as np
import pytest

from kerasseq import models
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.label_names import read_labels
from tests.pretrained.helpers import SIZES, shuffle

pytestmark = pytest.mark.once("reads and writes files")


@pytest.mark.parametrize("several", [False, True])
def test_names_there_and_back(several, tmp_path):
    model = models.ViT(
        ["cat", "dog"], image_size=4, patch_size=2, multi_label=several, **SIZES
    )
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["id2label"] == {"0": "cat", "1": "dog"}
    assert settings["label2id"] == {"cat": 0, "dog": 1}
    assert ("problem_type" in settings) == several
    again = models.from_pretrained(tmp_path)
    images = np.random.default_rng(0).random((3, 4, 4, 3))
    assert again.labels == ["cat", "dog"]
    assert again.classify(images) == model.classify(images)


@pytest.mark.parametrize(
    "table",
    [
        None,
        {},
        [],
        3,
        {"0": "LABEL_0", "1": "LABEL_1"},
        {"0": "cat"},
        {"0": "cat", "1": "dog", "2": "owl"},
        {"0": "cat", "1": 3},
        {"a": "cat", "b": "dog"},
    ],
)
def test_tables_without_names(table):
    assert read_labels(Settings({"id2label": table}, "config.json"), 2) == 2
