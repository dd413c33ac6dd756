"""Models in float64: one dtype for all gradients, which the optimizer clips."""

import keras
import numpy as np
import pytest

from kerasseq.models import (
    BERT,
    Forecaster,
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
    ViT,
)
from kerasseq.text import WordPieceTokenizer

pytestmark = pytest.mark.full("dtypes are tested layer by layer everywhere")

TEXTS, LABELS = ["a b", "b c"] * 6, ["x", "y"] * 6
SMALL = {"num_layers": 1, "hidden_dim": 4, "num_heads": 1}
SIZES = {"source_vocabulary_size": 9, "target_vocabulary_size": 9}


def bert():
    return BERT(WordPieceTokenizer(30).fit("a b c"), **SMALL).with_head("classify")


FITS = {
    "classifier": lambda: (
        SequenceClassifier("gru", tokenizer="word", units=3),
        (TEXTS, LABELS),
    ),
    "tagger": lambda: (
        SequenceTagger("gru", tokenizer="word", units=3, crf=True),
        ([text.split() for text in TEXTS], [LABELS[:2]] * 12),
    ),
    "language model": lambda: (
        LanguageModel("gru", vocabulary_size=7, units=3),
        (np.arange(300) % 7,),
    ),
    "translator": lambda: (Seq2Seq("gru", **SIZES, units=3), ([[3, 4]] * 8, [[5]] * 8)),
    "bert": lambda: (bert(), (TEXTS, LABELS)),
    "vit": lambda: (
        ViT(2, image_size=4, patch_size=2, channels=1, **SMALL),
        (np.ones((8, 4, 4, 1)), np.arange(8) % 2),
    ),
    "forecaster": lambda: (
        Forecaster("gru", horizon=2, units=3, quantiles=(0.1, 0.5, 0.9)),
        (np.sin(np.arange(47.0)),),
    ),
}


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="needs jax_enable_x64")
@pytest.mark.parametrize("name", FITS)
def test_fit(name):
    before = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("float64")
        model, data = FITS[name]()
        loss = model.fit(*data, epochs=1, verbose=0).history["loss"][0]
    finally:
        keras.config.set_dtype_policy(before)
    assert np.isfinite(loss)
    assert {variable.dtype for variable in model.trainable_variables} == {"float64"}
