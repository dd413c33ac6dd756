"""Sparse attention by name in blocks and in a GPT."""

import numpy as np
import pytest
from keras import ops

from kerasseq import layers, models, text
from tests.layer_checks import assert_close

pytestmark = pytest.mark.once("the layers are tested everywhere")

TOKENIZER = text.CharacterTokenizer().fit(["abcdefg"])
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "max_sequence_length": 23}
X = np.random.default_rng(0).normal(size=(2, 7, 8)).astype("float32")


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("blockwise", {"position": "rope", "num_key_value_heads": 1}),
        ("longformer", {"position": "relative", "sliding_window": 3}),
        ("adaptive_span", {"position": "alibi"}),
        (["multi_head", layers.LongformerAttention(2, 4, sliding_window=3)], {}),
    ],
)
def test_gpt_reads_a_text_in_parts_as_a_whole(attention, options):
    model = models.GPT(TOKENIZER, attention=attention, **SIZES, **options)
    ids = np.array([[1, 2, 3, 4, 5, 6, 7]])
    embedded = ops.convert_to_tensor(X[:1])
    stack = model.stack
    whole, _ = stack.hidden_states(embedded)
    caches, parts = stack.make_caches(1, 7), []
    for start, end in ((0, 4), (4, 5), (5, 7)):
        part = embedded[:, start:end]
        y, caches = stack.hidden_states(part, caches, start)
        parts.append(ops.convert_to_numpy(y))
    assert_close(np.concatenate(parts, axis=1), whole)
    changed = ids.copy()
    changed[:, -1] = 1
    before, after = (ops.convert_to_numpy(model(x)) for x in (ids, changed))
    np.testing.assert_array_equal(before[:, :-1], after[:, :-1])
    assert len(model.generate("abc", 12, seed=0)) == 15


@pytest.mark.parametrize(
    ("attention", "made"),
    [
        ("blockwise", layers.BlockwiseAttention),
        ("longformer", layers.LongformerAttention),
        ("linformer", layers.LinformerAttention),
        ("reformer", layers.ReformerAttention),
        ("adaptive_span", layers.AdaptiveSpanAttention),
    ],
)
def test_encoders_take_each_name(attention, made):
    block = layers.TransformerEncoder(11, 2, attention=attention, max_length=13)
    real = np.arange(9)[None] >= np.array([[0], [2]])
    padded = np.concatenate([7 * X[:, :2], X], axis=1)
    padded[0] = np.concatenate([X[0], X[0, :2]])
    found = ops.convert_to_numpy(block(padded, padding_mask=real))
    assert type(block._self_attention_layer) is made
    assert_close(found[1, 2:], block(X)[1])


def test_errors():
    with pytest.raises(ValueError, match="a LinformerAttention, which mixes all pos"):
        models.GPT(TOKENIZER, attention="linformer", position=None, **SIZES)
    with pytest.raises(ValueError, match="a ReformerAttention, which sorts all pos"):
        models.GPT(TOKENIZER, attention="reformer", position=None, **SIZES)
    linformer = layers.LinformerAttention(2, 4, rank=3, max_length=7)
    with pytest.raises(ValueError, match="must be causal in a decoder, received a Lin"):
        layers.TransformerDecoder(11, 2, attention=linformer).build((None, 7, 8))
    block = layers.TransformerEncoder(11, 2, attention="linformer")
    with pytest.raises(ValueError, match="Pass max_length, or a LinformerAttention"):
        block.build((None, None, 8))
    block = layers.TransformerEncoder(
        *(11, 2), attention="adaptive_span", max_length=7, sliding_window=3
    )
    with pytest.raises(ValueError, match="AdaptiveSpanAttention learns its window"):
        block.build((None, 7, 8))
