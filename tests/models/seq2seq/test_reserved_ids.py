"""No decoding writes an id that no target has: padding and start."""

import keras
import numpy as np
import pytest

from kerasseq.decoding import Beam
from kerasseq.models import T5, Seq2Seq, Transformer
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer

pytestmark = pytest.mark.everywhere("logits of -inf in each loop")

LETTERS = CharacterTokenizer(unknown=None).fit("abc ")
PIECES = WordPieceTokenizer(30).fit(["abc", "cab", "bca ab"])
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "dropout": 0.0}
LENGTH = 7


def seq2seq(target_tokenizer=LETTERS):
    made = Seq2Seq(
        "gru", source_tokenizer=LETTERS, target_tokenizer=target_tokenizer, units=5
    )
    bias = np.zeros(made.target_vocabulary.size, "float32")
    bias[[0, 1, 3]] = 9, 7, 8  # padding, start, and padding of the word pieces
    made.decoder.logits.bias.assign(bias)
    return made


def scaled(made):
    """A model without bias, whose first two ids have the largest logits."""
    table = made.decoder.embedding.embeddings
    rows = keras.ops.convert_to_numpy(table).copy()
    rows[1] = -9 * rows[2]
    rows[0] = 9 * rows[2]
    table.assign(rows)
    return made


MODELS = {
    "seq2seq": seq2seq,
    "pieces": lambda: seq2seq(PIECES),
    "t5": lambda: scaled(T5(LETTERS, **SIZES)),
    "transformer": lambda: scaled(Transformer(LETTERS, LETTERS, **SIZES)),
}
OPTIONS = {
    "greedy": {},
    "beam": {"sampler": Beam(3, n_best=3)},
    "sampled": {"temperature": 2.0, "top_k": 2, "seed": 1},
}


def written(made, sources, options):
    """The tokens of the targets that `translate` writes."""
    found = made.translate(sources, max_length=LENGTH, **options)
    for each in found:  # no two hypotheses with the same text
        texts = [str(text) for text, _ in each.candidates]
        assert len(set(texts)) == len(texts)
    return [token for each in found for token in each.target_tokens]


@pytest.mark.everywhere("logits of -inf in each loop", cases=1)
@pytest.mark.parametrize("name", MODELS)
def test_no_reserved_id_is_written(name):
    keras.utils.set_random_seed(2)
    made = MODELS[name]()
    logits = keras.ops.convert_to_numpy(made(made.encode("abc")))
    assert logits[0, 0].argmax() < 2
    for options in OPTIONS.values():
        tokens = written(made, ["abc", "b"], options)
        assert not {"<pad>", "<start>", "[PAD]"} & set(tokens)


@pytest.mark.once("the same step as in generate")
@pytest.mark.parametrize("name", ["pieces", "t5"])
def test_reserved_ids_in_streams_and_in_what_is_shown(name):
    keras.utils.set_random_seed(2)
    made = MODELS[name]()
    found = made.next_tokens("abc")
    hidden = set(found.ids[found.stages["model"] == 0].tolist())
    assert hidden == {0, 1, *([3] if name == "pieces" else ())}
    assert found.stages["model"].sum() == pytest.approx(1, abs=1e-5)
    pieces = list(made.stream("abc", max_length=LENGTH, temperature=2.0, seed=1))
    assert all(piece for piece in pieces[:-1])
    tree = made.search_tree("abc", LENGTH)
    assert not {0, 1} & set(tree.tree.token.tolist())


@pytest.mark.once("which ids are hidden is no matter of the backend")
def test_published_ids():
    keras.utils.set_random_seed(2)
    made = scaled(T5(vocabulary_size=11, published_ids=True, **SIZES))
    assert made.step.never == (0,)  # padding and start; 1 is the end
    for n in range(3):
        options = {"seed": n, "temperature": 3.0}
        assert "<pad>" not in written(made, [[4, 5, 6]], options)
    state = made.initial_state(made.encode([4, 5, 6])[0], LENGTH)
    logits, _ = made.step(state, np.zeros(1, "int32"))
    assert np.isneginf(keras.ops.convert_to_numpy(logits))[0].nonzero()[0].tolist() == [
        0
    ]
