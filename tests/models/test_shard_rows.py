"""Language models on token shards: the same training as on ids in memory."""

import json

import keras
import numpy as np
import pytest

from kerasseq import models, text
from kerasseq.datasets import TokenShards, prepare_shards, shard_writing
from kerasseq.training import TextBatches

pytestmark = pytest.mark.once("data in NumPy, training of Keras")

END = "<|endoftext|>"
T = 7
WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "it", "rained", "in", "Lyon"]
WORDS += ["and", "no", "dog"]
DOCUMENTS = [" ".join(WORDS[n % 5 : n % 11 + 2]) or "the" for n in range(53)]


@pytest.fixture(scope="module")
def tokenizer():
    return text.WordTokenizer(special_tokens=(END,)).fit(" ".join(WORDS))


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    file = tmp_path_factory.mktemp("texts") / "a.jsonl"
    lines = (json.dumps({"text": row}) + "\n" for row in DOCUMENTS)
    file.write_text("".join(lines))
    path = file.parent / "ids"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writing, "CHUNK", 101)  # so that there are several files
        prepare_shards(file, tokenizer, path, held_out=0.2, shard_tokens=31)
    return path


def make(kind, tokenizer):
    keras.utils.set_random_seed(3)
    if kind == "gpt":
        sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6}
        return models.GPT(tokenizer, max_sequence_length=11, **sizes)
    return models.LanguageModel(kind, tokenizer, units=5)


def weights(model):
    return [keras.ops.convert_to_numpy(w) for w in model.trainable_weights]


@pytest.mark.parametrize("kind", ["gpt", "gru"])
def test_joined_documents_train_as_their_ids(kind, tokenizer, folder):
    shards, others = (
        TokenShards(folder, part, sequence_length=T)
        for part in ("training", "held_out")
    )
    options = {"epochs": 2, "batch_size": 3, "seed": 5, "verbose": 0}
    found, expected = make(kind, tokenizer), make(kind, tokenizer)
    first = found.fit(shards, validation_data=others, **options).history
    second = expected.fit(
        np.asarray(shards.ids),
        validation_data=np.asarray(others.ids),
        sequence_length=T,
        **options,
    ).history
    assert first == second
    for a, b in zip(weights(found), weights(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    ids = np.asarray(others.ids)
    assert found.cross_entropy(others) == pytest.approx(expected.cross_entropy(ids))
    words = {"sequence_length": T, "verbose": 0}
    assert found.evaluate(others, **words) == expected.evaluate(ids, **words)
    found.fit(shards, validation_split=0.2, steps_per_epoch=2, verbose=0)


@pytest.mark.everywhere("the loss of padded rows, and states of each row")
@pytest.mark.parametrize("kind", ["gpt", "gru"])
def test_documents_apart_are_scored_as_if_alone(kind, tokenizer, folder):
    """No token reads another document, padding does not count, any batch size."""
    shards = TokenShards(folder, "held_out", sequence_length=T, documents_apart=True)
    model, losses = make(kind, tokenizer), []
    rows = np.split(np.asarray(shards.ids), shards.ends[:-1])
    for row in rows:
        for start in range(0, len(row) - 1, T):
            block = row[start : start + T + 1]
            alone = np.zeros((1, T), "int32")  # one shape is compiled
            alone[0, : len(block) - 1] = block[:-1]
            scores = np.asarray(keras.ops.convert_to_numpy(model(alone)), "float64")
            scores = scores[0, : len(block) - 1]
            log_sum = np.log(np.exp(scores).sum(axis=-1))
            losses += (log_sum - scores[np.arange(len(block) - 1), block[1:]]).tolist()
    assert len({len(row) for row in rows}) > 2
    for batch_size in (2, 32):
        loss, bits = model.evaluate(
            shards, sequence_length=T, batch_size=batch_size, verbose=0
        )
        assert bits == pytest.approx(np.mean(losses) / np.log(2), rel=1e-5)
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)  # of one batch


def test_documents_apart_are_trained_on(tokenizer, folder):
    words = {"sequence_length": T, "documents_apart": True}
    shards, others = (TokenShards(folder, p, **words) for p in ("training", "held_out"))
    model = make("gru", tokenizer)
    batches = model.answer_batches(shards, batch_size=4)
    found = [batches.batch(n)[0].shape[1] for n in range(batches.steps_per_epoch)]
    assert min(found) < max(found) == T, "short documents are batched together"
    options = {"batch_size": 4, "verbose": 0, "validation_data": others}
    history = model.fit(shards, epochs=3, **options).history
    assert history["val_loss"][-1] < history["val_loss"][0]
    again = make("gru", tokenizer)
    again.fit(shards, epochs=2, **options)
    again.fit(shards, epochs=3, initial_epoch=2, **options)  # goes on
    for a, b in zip(weights(model), weights(again), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    made = model.fit(shards, validation_split=0.3, epochs=1, verbose=0).history
    assert "val_loss" in made
    longer = TokenShards(folder, sequence_length=5, documents_apart=True)
    wanted = dict(sequence_length=T, batch_size=4, epochs=1, verbose=0)
    losses = [
        make("gru", tokenizer).fit(each, **wanted).history["loss"]
        for each in (shards, longer)
    ]
    assert losses[0] == losses[1], "blocks of the length that fit is given"


def test_batches_of_files_are_those_of_an_array(folder):
    shards = TokenShards(folder)
    assert len(list(folder.glob("training-*.bin"))) > 3
    for number in (0, 1, 40):
        found, expected = (
            TextBatches(ids, T, 5, seed=2).batch(number)
            for ids in (shards.ids, np.asarray(shards.ids))
        )
        np.testing.assert_array_equal(found, expected)


def test_loaders_of_others_read_them(folder):
    torch = pytest.importorskip("torch")
    shards = TokenShards(folder, sequence_length=T)
    loader = torch.utils.data.DataLoader(shards, batch_size=3, num_workers=2)
    x, y = next(iter(loader))
    assert x.tolist() == [shards[n][0].tolist() for n in range(3)]
    assert y.shape == (3, T)
    grain = pytest.importorskip("grain")
    x, y = next(iter(grain.MapDataset.source(shards).batch(3)))
    assert x.tolist() == [shards[n][0].tolist() for n in range(3)]
    assert y.shape == (3, T)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return len(shards) // 3

        def __getitem__(self, number):
            rows = [shards[3 * number + n] for n in range(3)]
            return tuple(map(np.stack, zip(*rows, strict=True)))

    model = make("gru", shards.tokenizer)
    assert model.fit(Batches(), verbose=0).history["loss"][0] > 0


@pytest.mark.everywhere("tf.data of TensorFlow; the others skip it")
def test_tf_data_reads_them(folder):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.data is TensorFlow's")
    tf = pytest.importorskip("tensorflow")
    for apart in (False, True):
        shards = TokenShards(folder, sequence_length=T, documents_apart=apart)
        spec = tuple(tf.TensorSpec(a.shape, a.dtype) for a in shards[0])
        rows = tf.data.Dataset.from_generator(
            lambda shards=shards: iter(shards), output_signature=spec
        )
        rows = rows.apply(tf.data.experimental.assert_cardinality(len(shards)))
        *batches, last = rows.batch(3)
        assert 3 * len(batches) + len(last[0]) == len(shards)
        for found, row in zip(
            batches[1], zip(*(shards[n] for n in (3, 4, 5)), strict=True), strict=True
        ):
            np.testing.assert_array_equal(found, np.stack(row))
    model = make("gru", shards.tokenizer)
    history = model.fit(rows.batch(3), shuffle=False, verbose=0).history
    assert history["loss"][0] > 0


def test_wrong_models(tokenizer, folder):
    other = text.CharacterTokenizer().fit("abc")
    shards = TokenShards(folder, sequence_length=T)
    model = models.LanguageModel("gru", other, units=3)
    for call in (model.fit, model.evaluate, model.cross_entropy):
        with pytest.raises(ValueError, match="made with another tokenizer"):
            call(shards)
    small = models.LanguageModel("gru", vocabulary_size=3, units=3)
    with pytest.raises(ValueError, match="ids, the model 3. Build it with"):
        small.fit(shards)
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 6}
    gpt = models.GPT(tokenizer, position="rope", memory_length=5, **sizes)
    apart = TokenShards(folder, sequence_length=T, documents_apart=True)
    with pytest.raises(ValueError, match="documents_apart must be False for a GPT"):
        gpt.fit(apart)
    gru = make("gru", tokenizer)
    with pytest.raises(ValueError, match="documents_apart must be False for the cross"):
        gru.cross_entropy(apart)
    found = gru.evaluate(apart[:5], verbose=0)  # in blocks of the shards
    assert found == gru.evaluate(apart[:5], sequence_length=T, verbose=0)
    gpt.fit(shards, batch_size=2, steps_per_epoch=2, verbose=0)
