"""The memory network: its equations, ties, bags, padding and wrong inputs."""

import keras
import numpy as np
import pytest

from kerasseq import datasets, layers, tracing

pytestmark = pytest.mark.once(
    "sums and products, which the layer checks run everywhere"
)

B, N, L, V, D = 3, 7, 5, 11, 2
rng = np.random.default_rng(0)
query = rng.integers(0, V, B)
keys, values = rng.integers(0, V, (2, B, N))
mask = rng.random((B, N)) < 0.6
mask[0] = False


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def in_numpy(network, query, keys, values, mask):
    """The equations, example by example; ids or bags of ids, and id 0 if it counts."""
    tables = [array(table) for table in network.tables]
    if network.mask_zero:
        tables = [np.concatenate([0 * table[:1], table[1:]]) for table in tables]
    W = array(network.tables[-1])
    H, logits, looks = np.eye(D), [], []
    if network.tie == "layer":
        H = array(network.H)
    for b in range(len(query)):
        of = [tables[0], tables[1]] if network.tie == "layer" else None
        first = tables[2 if network.tie == "layer" else 0]
        u = np.atleast_2d(first[query[b]]).sum(axis=0)
        for k in range(network.hops):
            A, C = of or tables[k : k + 2]
            m, c = (
                np.stack([np.atleast_2d(table[i]).sum(axis=0) for i in ids])
                for table, ids in ((A, keys[b]), (C, values[b]))
            )
            powers = np.exp(m @ u) * mask[b]
            p = powers / max(powers.sum(), 1e-30)
            u = H @ u + p @ c
            looks.append(p)
        logits.append(W @ u)
    return np.stack(logits), np.reshape(looks, (len(query), network.hops, -1))


@pytest.mark.parametrize("tie", ["layer", "adjacent"])
@pytest.mark.parametrize("hops", [1, 3])
def test_equals_numpy(tie, hops):
    network = layers.MemoryNetwork(V, D, hops, tie)
    network.build()
    network.set_weights([rng.normal(size=w.shape) for w in network.get_weights()])
    found = network(query, keys, values, mask, return_attention_scores=True)
    expected = in_numpy(network, query, keys, values, mask)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(array(one), other, atol=1e-5)
    assert not array(found[1])[0].any()  # no place of the first row may be read
    every = np.ones((B, N), bool)
    alone = in_numpy(network, query, keys, keys, every)[0]
    np.testing.assert_allclose(array(network(query, keys)), alone, atol=1e-5)


@pytest.mark.parametrize("tie", ["layer", "adjacent"])
def test_bags_of_words_with_padding(tie):
    network = layers.MemoryNetwork(V, D, 2, tie, mask_zero=True)
    network.build()
    network.set_weights([rng.normal(size=w.shape) for w in network.get_weights()])
    asked = rng.integers(0, V, (B, L))
    words = rng.integers(0, V, (B, N, L))
    words[1, 2:4] = 0  # places without a word
    answers = rng.integers(0, V, (B, N))  # one word each
    real = words.any(axis=-1)
    found = network(asked, words, answers, return_attention_scores=True)
    expected = in_numpy(network, asked, words, answers, real)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(array(one), other, atol=1e-5)
    wider = np.pad(words, ((0, 0), (0, 2), (0, 3)))
    padded = network(asked, wider, np.pad(answers, ((0, 0), (0, 2))))
    np.testing.assert_allclose(array(padded), array(found[0]), atol=1e-5)


def test_the_looks_are_traced_and_replaced():
    network = layers.MemoryNetwork(V, D, 2)
    with tracing.trace(network) as inside:
        _, p = network(query, keys, values, return_attention_scores=True)
    for k in (1, 2):
        np.testing.assert_allclose(inside[f"alignment_{k}"], array(p)[:, k - 1])
    place = np.eye(N, dtype="float32")[[4] * B]
    with tracing.intervene(network, {"alignment_2": place}):
        changed = network(query, keys, values)
    u = inside["query_2"] @ array(network.H).T
    u = u + array(network.tables[1])[values[:, 4]]
    expected = u @ array(network.tables[3]).T
    np.testing.assert_allclose(array(changed), expected, atol=1e-5)


def test_a_model_learns_to_follow_one_pair(tmp_path):
    keras.utils.set_random_seed(0)
    inputs = [keras.Input((), dtype="int32"), keras.Input((5,), dtype="int32")]
    inputs.append(keras.Input((5,), dtype="int32"))
    logits = layers.MemoryNetwork(V, 13, 1, "adjacent")(*inputs)
    model = keras.Model(inputs, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.03), loss, metrics=["accuracy"])
    data = datasets.chains(1500, pairs=5, symbols=V, steps=1)
    x = [data.query, data.keys, data.values]
    model.fit(x, data.answers, batch_size=50, epochs=6, verbose=0)
    new = datasets.chains(300, pairs=5, symbols=V, steps=1, seed=1)
    x = [new.query, new.keys, new.values]
    _, accuracy = model.evaluate(x, new.answers, verbose=0)
    assert accuracy > 0.95  # chance is 1/11
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 5, 2), "vocabulary_size must be at least 1"),
        ((7, 5, 0), "hops must be at least 1, received 0"),
        ((7, 5, 2, "adjacant"), 'Did you mean "adjacent"'),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        layers.MemoryNetwork(*arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((keys, keys[:2]), "same batch size"),
        ((query, query), r"keys must be ids \(batch, places\) or bags"),
        ((query, keys, values[:, :4]), "as many places"),
        ((query, keys, values, mask[:, :4]), "its places is 4 instead of 7"),
        ((query, keys.astype("float32")), "keys must be integers"),
    ],
)
def test_wrong_inputs(given, message):
    network = layers.MemoryNetwork(V, D, 2)
    with pytest.raises((TypeError, ValueError), match=message):
        network(*given)
