"""CRF: loss, path and marginals equal the enumeration of all sequences of tags."""

import itertools

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from kerasseq import kernels
from kerasseq.layers import CRF
from kerasseq.text import HiddenMarkovModel

pytestmark = pytest.mark.everywhere("its loops and their gradients are the backend's")

B, T, C = 3, 5, 2
MASKS = {
    "none": None,
    "right": [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]],
    "left": [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]],
    "inside": [[1, 0, 1, 0, 1], [0, 1, 0, 1, 1], [1, 0, 0, 1, 0]],
}


def example(seed=0, tags=C, steps=T):
    """A built layer with random weights, scores and tags."""
    rng = np.random.default_rng(seed)
    crf = CRF(tags)
    crf.build((None, None, tags))
    for weight in crf.weights:
        weight.assign(rng.normal(size=weight.shape))
    scores = rng.normal(size=(B, steps, tags)).astype("float32")
    return crf, scores, rng.integers(0, tags, (B, steps))


def numpy(x):
    return ops.convert_to_numpy(x)


def weights(crf):
    """A, a and z in float64."""
    return [numpy(w).astype("float64") for w in (crf.transitions, crf.start, crf.end)]


def score(e, y, A, a, z):
    """s(x, y), as in the equation."""
    s = a[y[0]] + z[y[-1]] + sum(e[t, k] for t, k in enumerate(y))
    return s + sum(A[i, j] for i, j in itertools.pairwise(y))


def enumerated(e, y, A, a, z):
    """-log p(y | x), the best sequence, and the probability of each tag."""
    all_tags = list(itertools.product(range(len(A)), repeat=len(e)))
    scores = np.array([score(e, each, A, a, z) for each in all_tags])
    log_Z = np.logaddexp.reduce(scores)
    p = np.exp(scores - log_Z)
    marginals = [
        [p[[each[t] == k for each in all_tags]].sum() for k in range(len(A))]
        for t in range(len(e))
    ]
    loss = log_Z - score(e, y, A, a, z)
    return loss, all_tags[scores.argmax()], np.array(marginals)


@pytest.mark.parametrize("name", MASKS)
def test_equals_enumeration(name):
    crf, scores, tags = example()
    mask = None if MASKS[name] is None else np.array(MASKS[name], bool)
    real = np.ones((B, T), bool) if mask is None else mask
    scores[~real] = np.nan
    tags[~real] = 99
    compiled = kernels.compiled(
        lambda e: (crf.loss(tags, e, mask), crf.decode(e, mask), crf.marginals(e, mask))
    )
    loss, path, marginals = map(numpy, compiled(scores))
    for row in range(B):
        steps = real[row]
        expected = enumerated(scores[row][steps], tags[row][steps], *weights(crf))
        np.testing.assert_allclose(loss[row].sum(), expected[0], atol=1e-5)
        assert path[row][steps].tolist() == list(expected[1])
        np.testing.assert_allclose(marginals[row][steps], expected[2], atol=1e-5)
    assert not any(found[~real].any() for found in (loss, path, marginals))


@pytest.mark.full("the examples above have three rows each")
@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 99), st.data())
def test_any_mask_equals_enumeration(steps, tags, seed, data):
    crf, scores, y = example(seed, tags, steps)
    mask = data.draw(st.lists(st.booleans(), min_size=steps, max_size=steps))
    steps = np.flatnonzero(mask)
    mask = np.array([mask] * B)
    loss = numpy(crf.loss(y, scores, mask))
    path = numpy(crf.decode(scores, mask))
    for row in range(B if len(steps) else 0):
        expected = enumerated(scores[row, steps], y[row, steps], *weights(crf))
        np.testing.assert_allclose(loss[row].sum(), expected[0], atol=1e-5)
        found = score(scores[row, steps], path[row, steps], *weights(crf))
        best = score(scores[row, steps], expected[1], *weights(crf))
        np.testing.assert_allclose(found, best, atol=1e-5)  # of two equal ones, any
    assert len(steps) or not loss.any()


def test_gradients_are_finite_differences():
    crf, scores, tags = example()
    mask = np.array(MASKS["inside"], bool)
    values = {"scores": scores.astype("float64")}
    values |= dict(zip(("transitions", "start", "end"), weights(crf), strict=True))

    def total(tensors):
        for weight in crf.weights:
            weight.assign(tensors[weight.name])
        return ops.sum(crf.loss(tags, tensors["scores"], mask))

    def exact(changed):
        scores, *weights = changed.values()
        rows = zip(scores, tags, mask, strict=True)
        return sum(enumerated(e[m], y[m], *weights)[0] for e, y, m in rows)

    tensors = {n: ops.convert_to_tensor(v, "float32") for n, v in values.items()}
    found = kernels.gradients(total, tensors)
    for name, value in values.items():
        for place in np.ndindex(value.shape):
            step = np.zeros_like(value)
            step[place] = 1e-4
            up, down = (exact({**values, name: value + s}) for s in (step, -step))
            difference = numpy(found[name])[place] - (up - down) / 2e-4
            assert abs(difference) < 1e-4, (name, place)


def test_a_hidden_markov_model_is_one():
    """Its logarithms are the scores: paths and likelihoods agree."""
    rng = np.random.default_rng(1)
    hmm = HiddenMarkovModel(3, 7, seed=2)
    ids = rng.integers(0, 7, 11)
    crf = CRF(3)
    crf.build((None, None, 3))
    for weight, p in ((crf.transitions, hmm.transition), (crf.start, hmm.initial)):
        weight.assign(np.log(p))
    scores = np.log(hmm.emission[:, ids]).T[None]
    path = hmm.viterbi(ids)
    assert numpy(crf.decode(scores))[0].tolist() == path.states.tolist()
    loss = numpy(crf.loss(path.states[None], scores)).sum()
    expected = hmm.log_likelihood(ids) - path.log_probability
    assert loss == pytest.approx(expected, abs=1e-4)


def test_keras_loss_is_that_of_a_real_step():
    """Compiled by Keras with the mask of the inputs: the mean over real steps."""
    crf, scores, tags = example()
    mask = np.array(MASKS["right"], bool)
    inputs = keras.Input((None, C))
    model = keras.Model(inputs, crf(keras.layers.Masking(-9.0)(inputs)))
    model.compile("sgd", loss=crf.loss)
    expected = numpy(ops.sum(crf.loss(tags, scores, mask))) / mask.sum()
    scores[~mask] = -9.0
    assert model.evaluate(scores, tags, verbose=0) == pytest.approx(expected, rel=1e-5)
    before = [numpy(weight).copy() for weight in crf.weights]
    model.fit(scores, tags, verbose=0)
    assert all(np.any(numpy(w) != b) for w, b in zip(crf.weights, before, strict=True))


def test_long_sequences_do_not_overflow():
    crf, scores, _ = example()
    scores = np.tile(scores, (1, 200, 1)) * 30
    path = crf.decode(scores)
    loss = numpy(ops.sum(crf.loss(path, scores), axis=1))
    assert np.isfinite(loss).all() and (loss > -1e-2).all()


def test_half_precision_computes_in_32_bits():
    crf, scores, tags = example()
    short = ops.cast(scores, "bfloat16")
    loss = crf.loss(tags, short)
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    exact = crf.loss(tags, ops.cast(short, "float32"))
    np.testing.assert_array_equal(numpy(loss), numpy(exact))


@pytest.mark.once("a check of shapes")
@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 2)])
def test_scores_of_another_number_of_tags(shape):
    with pytest.raises(ValueError, match=r"shape \(batch, time, 2\), as num_tags=2"):
        CRF(2)(np.ones(shape))
