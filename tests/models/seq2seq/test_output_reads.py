"""`Seq2Seq(output_reads="previous")`: the output reads the previous token, too."""

import functools

import numpy as np
import pytest

import kerasseq
from kerasseq.decoding import Beam
from kerasseq.models import Transformer
from kerasseq.training import ScheduledSampling
from tests.models.seq2seq import references, toys

pytestmark = pytest.mark.once("the decoder is tested against NumPy on each backend")

LENGTH = 7
SOURCE = "cab"


def model(attention="luong", **options):
    return toys.model(attention=attention, output_reads="previous", **options)


@functools.cache
def made():
    return toys.randomize(model(), 1.5, seed=4)


def logits_of(made, ids, source=SOURCE):
    """Logits `(T, V)` of one forward pass; padding and start are never written."""
    encoded, _ = made.encode([source])
    target = np.array([[1, *ids]], "int32")
    logits = toys.array(made((encoded, target)))[0]
    logits[:, :2] = -99
    return logits


def ids_of(translation):
    names = {"<end>": 2, **{c: 3 + n for n, c in enumerate("abcde")}, "\ufffd": 8}
    return [names[token] for token in translation.target_tokens]


@pytest.mark.everywhere("the compiled loop, a file")
def test_decoding_equals_forward_passes(tmp_path):
    """Greedy and beam search, token by token, and a model from a file."""
    model = made()
    greedy = []
    for _ in range(LENGTH):
        greedy.append(int(logits_of(model, greedy)[-1].argmax()))
        if greedy[-1] == 2:
            break
    translation = model.translate(SOURCE, max_length=LENGTH)
    wanted = model.target_vocabulary.decode(np.array(greedy))
    assert translation.text == wanted
    assert translation.alignment.shape == (len(greedy), len(SOURCE))
    np.testing.assert_allclose(translation.alignment.sum(-1), 1, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.decoder.output_reads == "previous"
    assert loaded.translate(SOURCE, max_length=LENGTH).text == wanted


def test_scores_of_a_beam_and_a_seed_of_a_sampler():
    model = made()
    best = model.translate(SOURCE, max_length=LENGTH, sampler=Beam(3))
    ids = ids_of(best)
    p = references.log_softmax(logits_of(model, ids[:-1]))
    log_p = p[np.arange(len(ids)), ids].sum()
    assert log_p == pytest.approx(best.score, abs=1e-4)
    assert best.score >= model.translate(SOURCE, max_length=LENGTH).score - 1e-5
    options = {"temperature": 1.5, "max_length": LENGTH, "seed": 3}
    assert model.generate(SOURCE, **options) == model.generate(SOURCE, **options)


def test_the_output_depends_on_the_previous_token_alone():
    """Without a way through the state, the token before changes the logits."""
    model = toys.randomize(toys.model(attention="luong", output_reads="previous"))
    cell = model.decoder.recurrent_layers[0].cell
    cell.kernel.assign(np.zeros(cell.kernel.shape))
    a, b = (logits_of(model, [first, 5]) for first in (3, 4))
    assert np.abs(a[1] - b[1]).max() > 0.1
    np.testing.assert_allclose(a[2], b[2], atol=1e-6)


@pytest.mark.everywhere("trained")
def test_fit_moves_the_weights_of_the_previous_token():
    model = toys.trainable(toys.model(attention=None, output_reads="previous", units=7))
    kernel = model.decoder.combine.kernel
    before = toys.array(kernel).copy()
    first = model.evaluate(toys.pairs(), verbose=0)[0]
    model.fit(toys.pairs(), batch_size=10, epochs=2, verbose=0)
    assert model.evaluate(toys.pairs(), verbose=0)[0] < first
    E = model.decoder.embedding_dim
    assert np.abs(toys.array(kernel) - before)[-E:].max() > 1e-4


@pytest.mark.parametrize("ratio", [0, 1])
def test_scheduled_sampling_gives_the_output_the_token_of_the_step(ratio):
    schedule = ScheduledSampling("constant", ratio=ratio)
    decoder = toys.randomize(model(scheduled_sampling=schedule)).decoder
    rng = np.random.default_rng(0)
    target = np.insert(rng.integers(3, 8, (2, 5)), 0, 1, axis=1).astype("int32")
    memory = rng.normal(size=(2, 3, 5)).astype("float32")
    given = target, memory, rng.normal(size=(2, 5)).astype("float32")
    logits = toys.array(decoder(*given, training=True))
    use_target = np.full(target.shape, bool(ratio))
    everywhere = np.ones((2, 3), bool)
    wanted, _ = references.run(decoder, *given, everywhere, use_target)
    np.testing.assert_allclose(logits, wanted, atol=1e-5)


def test_wrong_values():
    with pytest.raises(ValueError, match='output_reads="state" is not one of None, "p'):
        toys.model(output_reads="state")
    sizes = {"source_vocabulary_size": 5, "target_vocabulary_size": 5}
    with pytest.raises(TypeError, match="Transformer has no argument output_reads"):
        Transformer(**sizes, output_reads="previous")
