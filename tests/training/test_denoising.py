"""Noise of BART: what is changed, how often, and a model that learns to undo it."""

import collections
import math

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq import models, text
from kerasseq.training import Denoising
from kerasseq.training.denoising import KINDS, span_lengths

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

rest = pytest.mark.full("the batches are the same for all models")
MASK, STOP = 99, 7
rng = np.random.default_rng(0)
TEXT = np.arange(10, 41)  # 31 tokens, all different


def noise(*kinds, **options):
    return Denoising(kinds, mask_token_id=MASK, sentence_end_ids=[STOP], **options)


@given(
    kinds=st.permutations(KINDS),
    several=st.integers(1, 5),
    count=st.integers(1, 90),
    rate=st.floats(0.01, 0.99),
    mean=st.floats(1, 20),
    number=st.integers(0, 100),
)
def test_no_token_comes_from_elsewhere(kinds, several, count, rate, mean, number):
    corrupt = noise(*kinds[:several], rate=rate, mean_length=mean, seed=5)
    ids = np.random.default_rng(count).integers(1, 50, count)
    source, target = corrupt(ids, number)
    np.testing.assert_array_equal(target, ids)
    assert len(source) and source.dtype == target.dtype == "int32"
    left = collections.Counter(source[source != MASK].tolist())
    assert not left - collections.Counter(ids.tolist())
    np.testing.assert_array_equal(corrupt(ids, number)[0], source)


def test_what_each_kind_does():
    for number in range(50):
        masked, _ = noise("mask")(TEXT, number)
        assert np.all((masked == TEXT) | (masked == MASK))
        deleted, _ = noise("delete")(TEXT, number)
        assert np.all(np.diff(deleted) > 0) and np.isin(deleted, TEXT).all()
        infilled, _ = noise("infill")(TEXT, number)
        kept = infilled[infilled != MASK]
        assert np.all(np.diff(kept) > 0) and np.isin(kept, TEXT).all()
        rotated, _ = noise("rotate")(TEXT, number)
        first = rotated[0] - TEXT[0]
        assert rotated.tolist() == [*TEXT[first:], *TEXT[:first]]


def test_rates_over_many_texts():
    sizes = rng.integers(1, 80, 3001)  # also of one token
    texts = [np.arange(100, 100 + n) for n in sizes]
    for kind in ("mask", "delete", "infill"):
        sources, _ = noise(kind, rate=0.3).pairs(texts)
        kept = sum(np.sum(source != MASK) for source in sources)
        assert 1 - kept / sizes.sum() == pytest.approx(0.3, abs=2e-3), kind


def test_lengths_of_spans_are_those_of_poisson():
    draw = np.random.default_rng(1)
    found = [span_lengths(300, 3.0, draw) for _ in range(400)]
    lengths = np.concatenate([spans[:-1] for spans in found])  # the last one is cut
    assert all(sum(spans) == 300 for spans in found) and len(lengths) > 39_000
    for n in range(10):
        expected = 3**n * math.exp(-3) / math.factorial(n)
        assert np.mean(lengths == n) == pytest.approx(expected, abs=5e-3), n
    # Each span is one mask token, an empty one, too: 89 tokens a mask at rate 0.3.
    source, _ = noise("infill")(np.arange(100, 100 + 40_000))
    assert np.sum(source == MASK) == pytest.approx(40_000 * 0.3 / 3, rel=0.03)
    behind = np.diff(np.flatnonzero(source != MASK), prepend=-1) - 1
    taken = np.diff(source[source != MASK], prepend=99) - 1  # tokens left out before
    assert np.sum((behind == 1) & (taken == 0)) > 100  # inserted
    assert taken[behind == 0].max() == 0  # nothing is left out without a mask
    one = taken[behind == 1]
    assert one.mean() == pytest.approx(3, abs=0.15) and one.max() > 7


def test_places_of_spans_are_equally_likely():
    corrupt = noise("infill", rate=0.5, mean_length=1e6)  # one span of two
    counts = collections.Counter(
        tuple(corrupt([1, 2, 3, 4], number)[0].tolist()) for number in range(3000)
    )
    assert set(counts) == {(MASK, 3, 4), (1, MASK, 4), (1, 2, MASK)}
    assert max(counts.values()) < 1.1 * 1000 and min(counts.values()) > 0.9 * 1000


def test_sentences_in_every_order_and_every_first_token():
    sentences = [[1, STOP], [2, 2, STOP], [3]]
    counts = collections.Counter(
        tuple(noise("permute")(sum(sentences, []), number)[0].tolist())
        for number in range(3000)
    )
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    expected = {tuple(i for n in order for i in sentences[n]) for order in orders}
    assert set(counts) == expected
    assert min(counts.values()) > 0.85 * 500
    first = collections.Counter(
        int(noise("rotate")(TEXT, n)[0][0]) for n in range(3100)
    )
    assert set(first) == set(TEXT) and min(first.values()) > 60


def test_tokenizers_have_mask_tokens_and_full_stops():
    sentence = "to be. or not to be. that is it"
    word_piece = text.WordPieceTokenizer(99).fit(sentence)
    corrupt = Denoising(tokenizer=word_piece, rate=0.5)
    assert corrupt.mask_token_id == word_piece.id_of("[MASK]")
    assert corrupt.sentence_end_ids == [word_piece.id_of(".")]
    source, target = corrupt(sentence)
    assert target.tolist() == word_piece.encode(sentence).tolist()
    assert corrupt.mask_token_id in source
    byte_pair = text.BytePairTokenizer(300, special_tokens=["<mask>"]).fit(sentence)
    assert Denoising("mask", tokenizer=byte_pair).mask_token_id == 0
    with pytest.raises(ValueError, match='without a token "\\."'):
        Denoising("permute", tokenizer=text.WordPieceTokenizer(99).fit("to be"))
    letters = text.CharacterTokenizer().fit("ab.")
    with pytest.raises(ValueError, match=r"tokenizer has none: its special .* \[\]"):
        Denoising("infill", tokenizer=letters)
    assert Denoising("permute", tokenizer=letters)("a.b.a")[0].shape == (5,)


def small(kind, **sizes):
    options = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "dropout": 0.0}
    if kind == "T5":
        return models.T5(**sizes, **options)
    if kind == "Transformer":
        sides = "source", "target"
        both = {f"{side}_{k}": v for side in sides for k, v in sizes.items()}
        return models.Transformer(**both, **options)
    return models.Seq2Seq(
        "gru",
        source_vocabulary_size=sizes["vocabulary_size"],
        target_vocabulary_size=sizes["vocabulary_size"],
        units=8,
    )


@pytest.mark.parametrize(
    "kind",
    [
        "Transformer",
        *(pytest.param(kind, marks=rest) for kind in ("T5", "Seq2Seq")),
    ],
)
def test_models_learn_from_batches(kind):
    keras.utils.set_random_seed(3)
    texts = rng.integers(1, 9, (40, 7))  # one shape, compiled once
    model = small(kind, vocabulary_size=10)
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    batches = Denoising("infill", mask_token_id=9).batches(model, texts, batch_size=8)
    history = model.fit(
        batches.stream(),
        steps_per_epoch=batches.steps_per_epoch,
        epochs=6,
        verbose=0,
    )
    assert history.history["loss"][-1] < history.history["loss"][0] - 0.2


def test_batches_restore_the_texts_and_have_other_noise_in_each_epoch():
    tokenizer = text.WordPieceTokenizer(99).fit("to be or not to be that is the case")
    texts = ["to be or not to be", "that is the case", "to be", "or not"] * 4
    model = small("Transformer", tokenizer=tokenizer)
    corrupt = Denoising("mask", tokenizer=tokenizer, rate=0.5)
    batches = corrupt.batches(model, texts, batch_size=16)
    assert batches.steps_per_epoch == 1
    seen = []
    for number in range(2):
        (source, target), wanted = batches.batch(number)
        vocabulary = model.target_vocabulary
        assert collections.Counter(map(vocabulary.decode, wanted)) == (
            collections.Counter(texts)
        )
        assert np.all(target[:, 1:] == np.where(wanted == 2, 0, wanted)[:, :-1])
        is_mask = source == tokenizer.id_of("[MASK]") + vocabulary.offset
        same = source[:, : wanted.shape[1]] == wanted
        hidden = is_mask[:, : wanted.shape[1]]
        assert np.all(same | hidden | (wanted == vocabulary.end))
        seen.append(is_mask.sum(axis=1)[np.lexsort(wanted.T)])
    assert not np.array_equal(*seen)
    (again, _), _ = corrupt.batches(model, texts, batch_size=16).batch(1)
    np.testing.assert_array_equal(again, source)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (["swap"], {}, 'kinds="swap" is not one of'),
        ([[]], {}, r"kinds must be at least one .* received \[\]"),
        ([["mask", "mask"]], {}, "each once"),
        (["mask"], {"rate": 0}, "rate must .* received 0"),
        (["infill"], {"mean_length": 0.5}, "mean_length must be .* received 0.5"),
        (["infill"], {"mask_token_id": 0}, "mask_token_id must be .* received 0"),
        (
            ["infill"],
            {"mask_token_id": None},
            "need a mask token, received tokenizer=None",
        ),
        (["permute"], {}, 'kinds with "permute" need ids that end a sentence'),
    ],
)
def test_wrong_arguments(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Denoising(*arguments, **{"mask_token_id": 5, **options})


def test_wrong_texts_and_models():
    corrupt = noise("infill")
    with pytest.raises(ValueError, match=r"received shape \(0,\)"):
        corrupt([])
    with pytest.raises(ValueError, match="mask token, received id 99 at position 1"):
        corrupt([4, 99])
    with pytest.raises(TypeError, match="text must be ids, .* received 'to be'"):
        corrupt("to be")
    with pytest.raises(ValueError, match="mask_token_id must be .* at most 9, .* 99"):
        corrupt.batches(small("T5", vocabulary_size=10), [[1, 2]])
    with pytest.raises(TypeError, match="model must read and write tokens"):
        corrupt.batches(models.GPT(vocabulary_size=9, num_layers=1), [[1, 2]])
    other = models.Transformer(
        source_vocabulary_size=5, target_vocabulary_size=6, num_layers=1, hidden_dim=8
    )
    with pytest.raises(ValueError, match="same vocabulary .* received 7 and 8 ids"):
        noise("rotate").batches(other, [[1, 2]])
    with pytest.raises(ValueError, match="texts must have at least one text"):
        corrupt.batches(small("T5", vocabulary_size=200), [])
