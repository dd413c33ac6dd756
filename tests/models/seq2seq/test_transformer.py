"""Transformer and T5: equations, caches, masks, saving, wrong arguments."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq.core.padding import END, PADDING, START
from kerasseq.decoding import Beam, Temperature
from kerasseq.models import T5, Transformer, architectures, count
from kerasseq.text import CharacterTokenizer
from tests.models.seq2seq.transformer_toys import (
    VARIANTS,
    D,
    L,
    N,
    W,
    compile_eager,
    fill,
    made,
    numpy,
    pairs,
    some,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

SOURCE, TARGET = pairs()
ROWS = [row[row != 0] - 2 for row in SOURCE]  # ids of the user
LETTERS = CharacterTokenizer().fit("abcd")


@pytest.fixture(scope="module", params=VARIANTS)
def model(request):
    return some(request.param)


def close(found, wanted):
    """Asserts equality up to 1e-5 of the largest value."""
    found, wanted = numpy(found), numpy(wanted)
    scale = max(1, np.abs(wanted).max())
    np.testing.assert_allclose(found / scale, wanted / scale, atol=1e-5)


def test_cached_equals_uncached(model):
    logits = numpy(model([SOURCE, TARGET]))
    state = model.initial_state(SOURCE, TARGET.shape[1])
    for t in range(TARGET.shape[1]):
        now, state = model.step(state, ops.convert_to_tensor(TARGET[:, t]))
        close(now[:, END:], logits[:, t, END:])
        assert np.isneginf(numpy(now)[:, :END]).all()  # padding and start
    assert np.abs(logits[0, 1:] - logits[0, :-1]).max() > 1e-2


@pytest.mark.everywhere("the compiled loop, saving and loading", cases=1)
def test_translate_takes_the_argmax_of_each_step(model):
    length = 8
    target = np.zeros((len(SOURCE), length + 1), "int32")  # of one shape: padded
    target[:, 0] = START
    for t in range(length):
        logits = numpy(model([SOURCE, target]))[:, t, END:]  # of what is written
        target[:, t + 1] = END + logits.argmax(-1)
    found = model.translate(ROWS, max_length=length, alignments=False)
    for row, translation in zip(target[:, 1:], found, strict=True):
        ended = np.flatnonzero(row == END)
        row = row[: ended[0] if len(ended) else None]
        assert translation.text.tolist() == (row[row > END] - 2).tolist()


def test_padding_has_no_effect(model):
    longer = np.pad(SOURCE, ((0, 0), (0, 4)))
    later = np.pad(TARGET, ((0, 0), (0, 3)))
    logits = numpy(model([SOURCE, TARGET]))
    padded = numpy(model([longer, later]))[:, : TARGET.shape[1]]
    close(padded, logits)
    alone = numpy(model([SOURCE[1:2, : (SOURCE[1] != 0).sum()], TARGET[1:2]]))
    close(alone[0], logits[1])


def test_causal_mask_and_cross_attention(model):
    logits = numpy(model([SOURCE, TARGET]))
    other = TARGET.copy()
    other[:, 3] = 3 + other[:, 3] % (W - 1)
    changed = numpy(model([SOURCE, other]))
    close(changed[:, :3], logits[:, :3])
    assert np.abs(changed[:, 3:] - logits[:, 3:]).min(axis=(1, 2)).max() > 1e-7
    for place in (0, 1):  # the first token attends to the last source position, too
        other = SOURCE.copy()
        other[0, -1 + place] = 3 + other[0, -1 + place] % 8
        changed = numpy(model([other, TARGET]))
        assert np.abs(changed - logits)[0].max(axis=-1).min() > 1e-5


@pytest.mark.everywhere("the compiled loop, saving and loading", cases=1)
@pytest.mark.parametrize("variant", ["bart", "t5 1.1"])
def test_save_and_load(variant, tmp_path):
    model = some(variant)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    inputs = [SOURCE, TARGET]
    np.testing.assert_array_equal(numpy(loaded(inputs)), numpy(model(inputs)))
    said, again = (m.translate(ROWS[:1], max_length=5)[0] for m in (model, loaded))
    assert again.text.tolist() == said.text.tolist()
    np.testing.assert_array_equal(again.alignment, said.alignment)


def test_every_weight_is_trained(model):
    compile_eager(model)
    before = [numpy(w).copy() for w in model.trainable_weights]
    wanted = np.concatenate([TARGET[:, 1:], np.full((5, 1), END)], axis=1)
    model.fit((SOURCE, TARGET), wanted, batch_size=5, verbose=0)
    unchanged = [
        w.path
        for w, old in zip(model.trainable_weights, before, strict=True)
        if np.abs(numpy(w) - old).max() < 1e-7 and not w.path.endswith("key/bias")
    ]
    assert unchanged == []
    fill(model)


def test_equations_of_vaswani():
    model = some("vaswani")
    table = {w.path.split("/")[0]: numpy(w) for w in model.weights[:1]}
    E_s = table["source_embedding"]
    E_t = next(numpy(w) for w in model.weights if "target_embedding" in w.path)
    real = SOURCE != PADDING

    def embedded(E, ids):
        p = np.arange(ids.shape[1])[:, None]
        angle = p / 10000 ** (np.arange(0, D, 2) / D)
        code = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(p), D)
        return (np.sqrt(D) * E[ids] + code).astype("float32")

    h, y = embedded(E_s, SOURCE), embedded(E_t, TARGET)
    for n in range(L):
        h = model.get_layer(f"encoder_block_{n}")(h, padding_mask=real)
    for n in range(L):
        block = model.get_layer(f"decoder_block_{n}")
        y = block(y, h, encoder_padding_mask=real)
    logits = numpy(model([SOURCE, TARGET]))
    np.testing.assert_allclose(logits, numpy(y) @ E_t.T, atol=1e-4)


def test_bart_has_embedding_norms_and_learned_positions():
    model = some("bart")
    names = [layer.name for layer in model.layers]
    norms = [n for n in names if "norm" in n]
    assert norms == ["encoder_embedding_norm", "decoder_embedding_norm"]
    tables = [w for w in model.weights if "position_embedding" in w.path]
    assert [tuple(w.shape) for w in tables] == [(19, D), (19, D)]
    norm = model.get_layer("encoder_embedding_norm")
    x = numpy(model.encoder.embed(SOURCE, SOURCE != 0, 0, False))
    code = model.get_layer("encoder_position_embedding")
    E = next(numpy(w) for w in model.weights if "source_embedding" in w.path)
    P = numpy(code.position_embeddings)[: SOURCE.shape[1]]
    real = SOURCE != 0
    np.testing.assert_allclose(x[real], numpy(norm(E[SOURCE] + P))[real], atol=1e-5)


def test_alignment_is_the_mean_over_heads_of_the_last_layer():
    model = some("modern")
    with kerasseq.tracing.trace(model) as inside:
        model([SOURCE, TARGET])
    key = f"decoder_block_{L - 1}/cross_attention/alignment"
    alpha = inside[key]
    assert alpha.shape == (5, N, TARGET.shape[1], SOURCE.shape[1])
    found = numpy(model.alignment_model([SOURCE, TARGET]))
    np.testing.assert_allclose(found, alpha.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    assert (found[np.broadcast_to((SOURCE == 0)[:, None], found.shape)] == 0).all()
    said = model.translate(ROWS, max_length=4)
    assert [t.alignment.shape[1] for t in said] == [len(row) for row in ROWS]


def test_beam_scores_are_log_probabilities():
    model, length = some("relative"), 5
    start = np.full((len(SOURCE), 1), START)
    options = {"max_new_tokens": length, "stop": END, "fill": PADDING}
    state = model.initial_state(SOURCE, length)
    found = Beam(3, n_best=2).search(model.step, state, start, **options)
    for n in range(2):
        said = found.ids[:, n]
        read = np.concatenate([start, said[:, :-1]], axis=1)
        logits = numpy(model([SOURCE, read])).astype("float64")
        log_p = logits - np.log(np.exp(logits[..., END:]).sum(-1, keepdims=True))
        log_p = np.take_along_axis(log_p, said[..., None], -1)[..., 0]
        real = np.arange(length) < found.lengths[:, n, None]
        scores = (log_p * real).sum(axis=1)
        np.testing.assert_allclose(found.scores[:, n], scores, atol=1e-4)
    translated = model.translate(
        ROWS, sampler=Beam(3), max_length=length, alignments=False
    )
    scores = [t.score for t in translated]
    np.testing.assert_allclose(scores, found.scores[:, 0], atol=1e-4)


def test_translate_with_tokenizer_and_sampler():
    model = some_letters()
    said = model.translate("abba", sampler=Temperature(0.7), seed=5, max_length=6)
    again = model.translate("abba", sampler=Temperature(0.7), seed=5, max_length=6)
    assert isinstance(said.text, str) and said.text == again.text
    assert said.source_tokens == list("abba")


def some_letters(**options):
    return fill(
        Transformer(LETTERS, LETTERS, num_layers=1, hidden_dim=8, dropout=0, **options)
    )


def test_fit_on_texts():
    keras.utils.set_random_seed(0)
    model = Transformer(
        LETTERS, LETTERS, num_layers=1, hidden_dim=16, num_heads=2, dropout=0.0
    )
    compiles_fast = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.Adam(0.01), jit_compile=compiles_fast)
    texts = [a + b for a in "abcd" for b in "abcd"]
    reversed_texts = [text[::-1] for text in texts]
    model.fit(texts, reversed_texts, batch_size=16, epochs=150, verbose=0)
    assert [t.text for t in model.translate(texts)] == reversed_texts


@pytest.mark.parametrize(
    "name",
    [name for name, row in architectures.items() if row.kind == "encoder_decoder"],
)
def test_number_of_weights_equals_count(name):
    row = architectures[name].small()
    wanted = count(row, what="all").total
    if name.startswith("t5"):
        assert T5.from_architecture(row).count_params() == wanted
    assert Transformer.from_architecture(row).count_params() == wanted


def test_from_architecture_with_changes():
    row = architectures["t5_small"].small()
    changes = {
        "position": "sinusoidal",
        "norm": "layer",
        "norm_placement": "post",
        "use_bias": True,
        "feed_forward": "gelu",
        "num_key_value_heads": 2,
        "tie_embeddings": False,
    }
    model = Transformer.from_architecture(row, **changes)
    changed = dataclasses.replace(row, **changes)
    assert model.count_params() == count(changed, what="all").total
    model = Transformer.from_architecture(row, LETTERS, LETTERS)
    assert model.source_vocabulary.size == 3 + LETTERS.vocabulary_size
    assert model.get_layer("embedding").input_dim == model.source_vocabulary.size
    apart = Transformer.from_architecture(row, LETTERS, CharacterTokenizer().fit("xy"))
    assert apart.get_layer("source_embedding").input_dim == model.source_vocabulary.size


@pytest.mark.parametrize("name", ["gpt2_small", "bert_base"])
def test_from_architecture_of_another_kind_raises(name):
    with pytest.raises(ValueError, match="of kind='encoder_decoder'"):
        Transformer.from_architecture(architectures[name].small())
    with pytest.raises(ValueError, match="of kind='encoder_decoder'"):
        T5.from_architecture(architectures[name].small())


def test_t5_from_another_architecture_raises():
    row = architectures["transformer_base"].small()
    with pytest.raises(ValueError, match="must have norm='rms', .* norm='layer'"):
        T5.from_architecture(row)


def test_sequence_longer_than_learned_positions_raises():
    model = made("bart", max_sequence_length=9)
    nine = np.ones(9, "int32")
    said = model.translate([nine], max_length=9)[0].alignment
    assert said.shape[0] <= 9 and said.shape[1] == 9
    assert model.max_target_length(nine[None]) == 9
    model.arrays([nine], [nine[:8]])
    with pytest.raises(
        ValueError, match="source 1 must have at most 9 .* received 10 "
    ):
        model.translate([nine, np.ones(10, "int32")])
    with pytest.raises(ValueError, match="target 0 must have at most 8 .* received 9"):
        model.fit([nine], [nine])
    with pytest.raises(ValueError, match="max_length must be at most 9.*received 10"):
        model.translate([nine], max_length=10)


def test_padding_longer_than_learned_positions():
    model = some("bart", max_sequence_length=7)
    source, target = np.pad(SOURCE, ((0, 0), (0, 4))), np.pad(TARGET, ((0, 0), (0, 5)))
    logits = numpy(model([source, target]))[:, : TARGET.shape[1]]
    np.testing.assert_allclose(logits, numpy(model([SOURCE, TARGET])), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position": "rotary"}, 'position="rotary" is not one of'),
        ({"num_layers": 0}, "num_layers must be at least 1, received 0"),
        ({"num_heads": 5}, "num_heads must divide the hidden size 12"),
        ({"dropout": 1}, "dropout=1 would drop everything"),
        ({"norm_placement": "front"}, 'norm_placement="front" is not one of'),
        ({"feed_forward": "gelo"}, 'Did you mean "gelu"'),
    ],
)
def test_wrong_arguments_raise(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)


def test_shared_embedding_of_two_vocabularies_raises():
    assert "source_embedding" not in str(some(share_embeddings=True).layers)
    with pytest.raises(ValueError, match="received 10 and 9 ids"):
        Transformer(
            source_vocabulary_size=8, target_vocabulary_size=7, share_embeddings=True
        )
    others = CharacterTokenizer().fit("wxyz")
    with pytest.raises(
        ValueError, match="received different tokens.* the same tokenizer"
    ):
        Transformer(LETTERS, others, share_embeddings=True)
    assert some_letters(share_embeddings=True).translate("ab", max_length=3)
