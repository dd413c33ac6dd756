"""BERT: its weights, what it computes, its heads, and what they do with texts."""

import importlib.util

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import BERT, architectures, count
from kerasseq.models.bert.bert_heads import NAMES
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer
from kerasseq.training import MaskedLMMaskGenerator
from tests.processes import ROOT

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, V, D, C, P = 3, 7, 31, 12, 5, 2
SIZES = {"num_layers": 2, "num_heads": 3, "hidden_dim": D, "max_sequence_length": 17}
PAD, CLS, SEP, MASK = 0, 2, 3, 4
CLASSES = {"classify": C, "tag": C}
TEXT = "to be or not to be that is the question whether it is nobler in the mind"
DOCUMENTS = [
    ["to be or not to be", "that is the question", "whether it is nobler"],
    ["in the mind", "the question is that", "to be nobler is to be"],
]


def array(x):
    return keras.ops.convert_to_numpy(x)


def model(head=None, tokenizer=None, **options):
    size = {} if tokenizer else {"vocabulary_size": V}
    options = {**SIZES, **size, "labels": CLASSES.get(head), **options}
    return filled(BERT(tokenizer, head=head, **options))


def filled(model, seed=0):
    """The model with weights that are all different."""
    rng = np.random.default_rng(seed)
    model.set_weights([0.3 * rng.normal(size=w.shape) for w in model.weights])
    return model


def inputs(head=None, time=T, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, V, (B, time))
    ids[:, 0] = CLS
    x = {"ids": ids, "segments": np.arange(time)[None] // 4 + 0 * ids}
    x["segments"] = np.minimum(x["segments"], 1)
    if head in ("tokens", "pretraining"):
        x["positions"] = np.sort(rng.integers(0, time, (B, P)))
    return {name: value.astype("int32") for name, value in x.items()}


def run(net, x):
    """The outputs, as a dictionary."""
    y = net(x, training=False)
    y = y if isinstance(y, dict) else {"output": y}
    return {name: array(value) for name, value in y.items()}


def same(found, wanted, atol=1e-5):
    assert found.keys() == wanted.keys()
    for name in found:
        np.testing.assert_allclose(found[name], wanted[name], atol=atol)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(120).fit([TEXT, TEXT])


BERTS = [name for name, row in architectures.items() if row.kind == "encoder"]


@pytest.mark.parametrize("name", BERTS)
def test_the_weights_are_those_that_are_counted(name):
    small = architectures[name].small()
    net = BERT.from_architecture(small, dropout=0)
    assert net.count_params() == count(small, what="all").total
    wider = BERT.from_architecture(small, intermediate_dim=29, segments=3)
    row = small.scaled(intermediate_dim=29, segments=3)
    assert wider.count_params() == count(row, what="all").total
    x = {"ids": np.full((1, 17), 7), "segments": np.full((1, 17), 2)}
    assert run(wider, x)["sequence"].shape == (1, 17, small.hidden_dim)


@pytest.mark.full("small models have as many weights as are counted", cheap=False)
@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="allocates in a StatelessScope"
)
def test_the_published_size(monkeypatch):
    # No optimizer and no dropout: both have variables that the scope forbids.
    monkeypatch.setattr(BERT, "compile", lambda self: None)
    with keras.StatelessScope():
        net = BERT.from_architecture("bert_base", dropout=0)
    assert net.count_params() == 109_482_240
    assert net.max_sequence_length == 512


def test_keras_hub_computes_the_same():
    hub = pytest.importorskip("keras_hub")
    ours = model(intermediate_dim=19)
    theirs = hub.models.BertBackbone(
        V, 2, 3, D, 19, dropout=0.1, max_sequence_length=17
    )
    assert [w.shape for w in theirs.weights] == [w.shape for w in ours.weights]
    theirs.set_weights(ours.get_weights())
    x = inputs()
    x["ids"][1, 4:], x["ids"][2, 6:] = PAD, PAD
    real = x["ids"] != PAD
    wanted = theirs(
        {
            "token_ids": x["ids"],
            "segment_ids": x["segments"],
            "padding_mask": real.astype("int32"),
        }
    )
    y = run(ours, x)
    np.testing.assert_allclose(
        y["sequence"][real], array(wanted["sequence_output"])[real], atol=1e-5
    )
    np.testing.assert_allclose(y["pooled"], array(wanted["pooled_output"]), atol=1e-5)


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, gamma, beta):
    mean, deviation = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    return gamma * (x - mean) / deviation + beta


def weights_of(net, name):
    return [array(w).astype("float64") for w in net.get_layer(name).weights]


def test_the_equations_round_the_blocks():
    net, x = model("pretraining"), inputs("pretraining")
    ids, segments, asked = x["ids"], x["segments"], x["positions"]
    E, P_, S = (
        weights_of(net, name)[0]
        for name in ("embedding", "position_embedding", "segment_embedding")
    )
    first = keras.Model(net.input, net.get_layer("embedding_norm").output)
    wanted = layer_norm(
        E[ids] + P_[:T] + S[segments], *weights_of(net, "embedding_norm")
    )
    np.testing.assert_allclose(array(first(x)), wanted, atol=1e-5)

    h = array(keras.Model(net.input, net.get_layer("block_1").output)(x))
    W, b = weights_of(net, "pooler")
    pooled = np.tanh(h[:, 0] @ W + b)
    W, b = weights_of(net, "next")
    y = run(net, x)
    np.testing.assert_allclose(y["next"], pooled @ W + b, atol=1e-5)
    W, b = weights_of(net, "token_dense")
    m = gelu(np.take_along_axis(h, asked[..., None], axis=1) @ W + b)
    m = layer_norm(m, *weights_of(net, "token_norm"))
    bias = weights_of(net, "tokens")[0]
    np.testing.assert_allclose(y["tokens"], m @ E.T + bias, atol=1e-4)


@pytest.mark.parametrize("head", NAMES)
def test_padding_changes_nothing(head):
    net, x = model(head), inputs(head)
    y = run(net, x)
    for before, after in ((0, 4), (4, 0), (3, 2)):
        padded = {
            name: np.pad(x[name], ((0, 0), (before, after)))
            for name in ("ids", "segments")
        }
        if head in ("tokens", "pretraining"):
            padded["positions"] = x["positions"] + before
        found = run(net, padded)
        for name, value in found.items():
            if name in ("sequence", "start", "end") or head == "tag":
                found[name] = value[:, before : before + T]
        same(found, y)
        if head == "span":
            p = run(net, padded)["start"]
            assert np.all(np.delete(p, range(before, before + T), axis=1) <= -1e4)


def test_it_reads_in_both_directions_and_tells_segments_apart():
    net, x = model(), inputs()
    y = run(net, x)["sequence"]
    for place in (1, T - 1):
        other = {**x, "ids": x["ids"].copy()}
        other["ids"][:, place] = (x["ids"][:, place] - 4) % (V - 5) + 5
        assert np.all(np.abs(run(net, other)["sequence"] - y).max(-1) > 1e-4)
    turned = run(net, {**x, "segments": 1 - x["segments"]})["sequence"]
    assert np.all(np.abs(turned - y).max(-1) > 1e-4)


@pytest.mark.everywhere("trained, saved, loaded", cases=1)
@pytest.mark.parametrize("head", NAMES)
def test_saved_and_loaded(head, tokenizer, tmp_path):
    net = model(head, tokenizer, intermediate_dim=23)
    net.save(tmp_path / "bert.keras")
    loaded = kerasseq.load_model(tmp_path / "bert.keras")
    x = inputs(head)
    same(run(loaded, x), run(net, x), atol=0)
    assert loaded.tokenizer == tokenizer
    assert (loaded.head, loaded.max_sequence_length) == (head, 17)
    assert loaded.get_config() == net.get_config()


def test_special_ids_of_ones_own_are_saved(tmp_path):
    own = {"[PAD]": 7, "[CLS]": 8, "[SEP]": 9, "[MASK]": 10}
    net = model(special_ids=own)
    x = inputs()
    x["ids"][x["ids"] == 7] = 11
    padded = {
        "ids": np.pad(x["ids"], ((0, 0), (0, 2)), constant_values=7),
        "segments": np.pad(x["segments"], ((0, 0), (0, 2))),
    }
    y = run(net, x)
    np.testing.assert_allclose(run(net, padded)["pooled"], y["pooled"], atol=1e-5)
    net.save(tmp_path / "bert.keras")
    loaded = kerasseq.load_model(tmp_path / "bert.keras")
    np.testing.assert_allclose(run(loaded, padded)["pooled"], y["pooled"], atol=1e-5)
    assert loaded.preprocessor.special_ids == own


@pytest.mark.parametrize("head", [name for name in NAMES if name != "pretraining"])
def test_a_head_changes_and_the_trunk_stays(head):
    before = model("pretraining")
    after = before.with_head(head, labels=CLASSES.get(head), dropout=0.0)
    assert after.head == head and after._arguments["dropout"] == 0.0
    shared = {layer.name for layer in before.layers if layer.weights}
    shared &= {layer.name for layer in after.layers}
    assert shared >= {"embedding", "position_embedding", "segment_embedding"}
    assert shared >= {"embedding_norm", "block_0", "block_1"}
    assert ("pooler" in shared) == (head in ("classify", None))
    for name in shared:
        pairs = zip(weights_of(before, name), weights_of(after, name), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)
    kept = before.get_weights()
    for variable in after.weights:
        variable.assign(variable + 1)
    for weight, old in zip(before.get_weights(), kept, strict=True):
        np.testing.assert_array_equal(weight, old)  # the two share nothing


def test_other_classes_begin_anew():
    net = model("classify")
    same_classes = net.with_head("classify", labels=C)
    same(run(same_classes, inputs()), run(net, inputs()), atol=0)
    other = net.with_head("classify", labels=C + 1)
    assert run(other, inputs())["output"].shape == (B, C + 1)


@pytest.mark.full("one training runs everywhere")
def test_every_weight_of_pretraining_moves(tokenizer):
    keras.utils.set_random_seed(1)  # some initial weights move single biases less
    net = BERT(tokenizer, **SIZES, head="pretraining", dropout=0)
    before = [array(w).copy() for w in net.trainable_variables]
    net.compile(keras.optimizers.Adam(1e-2))
    net.fit(DOCUMENTS, sequence_length=17, epochs=3, batch_size=2, verbose=0)
    for was, now in zip(before, net.trainable_variables, strict=True):
        if now.path.endswith("key/bias"):
            continue  # softmax does not see it
        assert np.abs(array(now) - was).max() > 1e-4, now.path


def test_the_losses_of_pretraining(tokenizer):
    net = model("pretraining", tokenizer)
    batches = net.batches(DOCUMENTS, sequence_length=15, batch_size=4, seed=2)
    x, y, w = batches.batch(1)
    w["tokens"][:] = 1
    w["tokens"][0, 1:] = 0
    found = net.evaluate(x, y, verbose=0, return_dict=True)
    y_hat = run(net, x)

    def losses(name):
        logits = y_hat[name].astype("float64")
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return -np.take_along_axis(log_p, y[name][..., None], axis=-1)[..., 0]

    weighted = net.test_on_batch(x, y, w, return_dict=True)
    wanted = (losses("tokens") * w["tokens"]).sum() / w["tokens"].sum()
    assert weighted["loss"] == pytest.approx(wanted + losses("next").mean(), rel=1e-4)
    right = y_hat["tokens"].argmax(-1) == y["tokens"]
    accuracy = (right * w["tokens"]).sum() / w["tokens"].sum()
    assert weighted["tokens_accuracy"] == pytest.approx(accuracy, abs=1e-5)
    wanted = losses("tokens").mean() + losses("next").mean()
    assert found["loss"] == pytest.approx(wanted, rel=1e-4)


def test_no_special_token_is_asked_for(tokenizer):
    net = model("pretraining", tokenizer)
    x, y, w = net.batches([[*d, "zzz ???"] for d in DOCUMENTS]).all()
    assert np.isin(1, x["ids"])  # the unknown token
    assert y["tokens"][w["tokens"] == 1].min() > MASK
    assert x["ids"].shape[1] == 17  # as long as the model reads


def test_a_run_that_goes_on_sees_the_same_batches(tokenizer):
    def trained(*parts):
        keras.utils.set_random_seed(0)
        net = BERT(tokenizer, **SIZES, head="pretraining", dropout=0)
        net.compile(keras.optimizers.SGD(0.1))
        options = {"batch_size": 2, "steps_per_epoch": 3, "verbose": 0, "seed": 5}
        for first, last in parts:
            net.fit(DOCUMENTS, initial_epoch=first, epochs=last, **options)
        return net.get_weights()

    whole, parted = trained((0, 2)), trained((0, 1), (1, 2))
    for a, b in zip(whole, parted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_pretraining_on_ids_and_its_validation(tokenizer):
    texts, ids = model("pretraining", tokenizer), None
    ids = [[tokenizer.encode(s) for s in d] for d in DOCUMENTS]
    bare = BERT(vocabulary_size=tokenizer.vocabulary_size, head="pretraining", **SIZES)
    bare.set_weights(texts.get_weights())
    wanted = texts.evaluate(DOCUMENTS, verbose=0)
    assert bare.evaluate(ids, verbose=0) == pytest.approx(wanted, rel=1e-4)
    history = bare.fit(
        ids, validation_data=ids, batch_size=2, epochs=1, verbose=0
    ).history
    assert {"tokens_loss", "next_loss", "val_tokens_loss"} <= history.keys()
    assert "val_next_accuracy" in history


def test_texts_and_pairs_are_read_as_marks_tell(tokenizer):
    net = model("classify", tokenizer)
    a, b = (tokenizer.encode(t).tolist() for t in ("to be", "the mind"))
    rows = [[CLS, *a, SEP], [CLS, *a, SEP, *b, SEP]]
    x = net.preprocessor.rows(["to be", ("to be", "the mind")]).arrays
    length = x["ids"].shape[1]
    assert length == min(17, -(-len(rows[1]) // 8) * 8)
    for row, ids in enumerate(rows):
        assert x["ids"][row].tolist() == ids + [PAD] * (length - len(ids))
    second = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert x["segments"][1].tolist() == second + [0] * (length - len(second))
    assert not x["segments"][0].any()
    found = net.predict(["to be", ("to be", "the mind")], verbose=0)
    np.testing.assert_allclose(found[:1], net.predict(rows[:1], verbose=0), atol=1e-5)
    np.testing.assert_allclose(
        found[:1], net.predict(np.array(rows[:1]), verbose=0), atol=1e-5
    )
    np.testing.assert_allclose(found, run(net, x)["output"], atol=1e-5)


def test_a_classifier_learns_from_texts(tokenizer):
    keras.utils.set_random_seed(0)
    pretrained = BERT(tokenizer, **SIZES, head="pretraining")
    before = run(pretrained, inputs("pretraining"))
    net = pretrained.with_head("classify", labels=2, dropout=0)
    net.compile(keras.optimizers.Adam(1e-2))
    texts = ["to be", "the mind", "to not be", "the question"] * 4
    labels = [0, 1, 0, 1] * 4
    net.fit(texts, labels, epochs=8, verbose=0, validation_data=(texts, labels))
    assert net.evaluate(texts, labels, verbose=0)[1] == 1.0
    assert net.predict(["to be"], verbose=0).argmax() == 0
    same(run(pretrained, inputs("pretraining")), before, atol=0)  # nothing is shared


def test_tags_stand_at_the_first_pieces_of_words(tokenizer):
    net = model("tag", tokenizer)
    words = ["mindtot", "to", "nobler"]
    sizes = [len(tokenizer.encode(word)) for word in words]
    assert max(sizes) > 1
    places = 1 + np.cumsum([0, *sizes])[:-1]
    (x, labels, weights) = net.arrays([words, "to be"], [[4, 1, 2], [3, 3]])
    assert weights.sum() == 5 and np.all(weights[0, places] == 1)
    assert labels[0, places].tolist() == [4, 1, 2]
    assert tokenizer.decode(x["ids"][0], skip_special=True) == " ".join(words)
    found = net.predict([words, "to be"], verbose=0)
    assert [row.shape for row in found] == [(3, C), (2, C)]
    logits = run(net, x)["output"]
    np.testing.assert_allclose(found[0], logits[0, places], atol=1e-5)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -np.take_along_axis(log_p, labels[..., None], -1)[..., 0]
    wanted = (loss * weights).sum() / 5
    told = net.evaluate([words, "to be"], [[4, 1, 2], [3, 3]], verbose=0)
    assert told[0] == pytest.approx(wanted, rel=1e-4)
    # The same with ids, where -1 does not count.
    by_ids = np.where(weights > 0, labels, -1)
    assert net.evaluate(x["ids"], by_ids, verbose=0)[0] == pytest.approx(
        wanted, rel=1e-4
    )


def test_spans_are_stretches_of_characters(tokenizer):
    net = model("span", tokenizer)
    text = "to be nobler in mind"
    pairs = [("the mind", text), ("is", text), text]
    spans = [(6, 12), None, (16, 20)]
    x, y, _ = net.arrays(pairs, spans)
    ids = x["ids"]
    for row in (0, 2):
        start, end = spans[row]
        said = ids[row, y["start"][row] : y["end"][row] + 1]
        assert tokenizer.decode(said) == text[start:end]
        assert x["segments"][row, y["start"][row]] == (row == 0)
    assert (y["start"][1], y["end"][1]) == (0, 0)
    keras.utils.set_random_seed(0)
    net = BERT(tokenizer, **SIZES, head="span", dropout=0)
    net.compile(keras.optimizers.Adam(1e-2))
    net.fit(pairs, spans, epochs=60, verbose=0)
    assert net.answers(pairs, verbose=0) == ["nobler", None, "mind"]


def test_an_answer_does_not_end_before_it_begins(tokenizer):
    net = model("span", tokenizer)
    rng = np.random.default_rng(1)
    for _ in range(5):
        net.set_weights([rng.normal(size=w.shape) for w in net.weights])
        text = "to be nobler in mind"
        (answer,) = net.answers([text], verbose=0)
        assert answer is None or (answer and answer in text)


def test_fill(tokenizer):
    keras.utils.set_random_seed(1)
    net = BERT(tokenizer, **SIZES, head="pretraining", dropout=0)
    net.compile(keras.optimizers.Adam(1e-2))
    documents = [["to be", "the mind", "to be"], ["is it", "not to be", "to be"]] * 4
    masking = MaskedLMMaskGenerator(tokenizer, mask_selection_rate=0.4)
    net.fit(documents, sequence_length=11, masking=masking, epochs=40, verbose=0)
    (found,) = net.fill("to [MASK]", k=3)
    assert found[0][0] == "be"
    probabilities = [p for _, p in found]
    assert (
        probabilities == sorted(probabilities, reverse=True) and sum(probabilities) < 1
    )
    assert len(found) == 3
    assert len(net.fill(("[MASK] be", "the [MASK]"))) == 2


@pytest.mark.everywhere("trained, saved, loaded")
def test_mixed_precision(tokenizer):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        net = BERT(tokenizer, **SIZES, head="pretraining")
        loss = net.fit(DOCUMENTS, epochs=1, verbose=0).history["loss"][0]
        y = net(inputs("pretraining"))
    finally:
        keras.config.set_dtype_policy(before)
    assert net.get_layer("block_0").compute_dtype == "bfloat16"
    for value in y.values():
        assert keras.backend.standardize_dtype(value.dtype) == "float32"
    assert np.isfinite(loss)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"vocabulary_size": None}, ValueError, "a fitted tokenizer for text, or voc"),
        ({"head": "tags"}, ValueError, 'head="tags" is not one of.*Did you mean "tag"'),
        ({"head": "tag", "labels": 1}, ValueError, "labels must be at least 2"),
        ({"head": "tag", "labels": ["a"]}, ValueError, "at least 2 labels"),
        ({"head": "tag", "labels": "ab"}, TypeError, "labels"),
        ({"head": "span", "labels": 3}, ValueError, "must be None for a head"),
        ({"head": "tag", "multi_label": True}, ValueError, "multi_label must be Fa"),
        ({"head": "span", "truncate": True}, ValueError, "truncate must be False"),
        ({"num_layers": 0}, ValueError, "num_layers must be at least 1"),
        ({"hidden_dim": 13}, ValueError, "num_heads must divide"),
        ({"dropout": 1.0}, ValueError, "1"),
        ({"num_segments": 0}, ValueError, "num_segments must be at least 1"),
        ({"special_ids": {"[PAD]": 0}}, ValueError, r"no id of \[CLS\], \[SEP\]"),
    ],
)
def test_messages(options, error, message):
    with pytest.raises(error, match=message):
        BERT(**{**SIZES, "vocabulary_size": V, **options})


def test_messages_about_tokenizers_and_rows(tokenizer):
    with pytest.raises(ValueError, match=r"no special token \[PAD\]"):
        BERT(CharacterTokenizer().fit("abc"), **SIZES)
    with pytest.raises(ValueError, match="is for models without a tokenizer"):
        BERT(tokenizer, **SIZES, special_ids={"[PAD]": 0})
    with pytest.raises(ValueError, match="GPT-2 small has kind='decoder'; BERT builds"):
        BERT.from_architecture("gpt2_small")
    with pytest.raises(ValueError, match='Did you mean "bert_base"'):
        BERT.from_architecture("bert_bas")


@pytest.mark.parametrize(
    ("head", "x", "y", "error", "message"),
    [
        (
            "classify",
            ["to be " * 9],
            [0],
            ValueError,
            "text 0 has 20 tokens, .* at most",
        ),
        ("classify", np.full((1, 18), 5), [0], ValueError, "18 tokens in a row.*=17"),
        (
            "classify",
            [[5, V]],
            [0],
            ValueError,
            "vocabulary_size=31, received 31",
        ),
        ("classify", [[-1]], [0], ValueError, "received -1"),
        ("classify", [[1.5]], [0], TypeError, "ids must be integers"),
        (
            "classify",
            ["to", "be"],
            [0],
            ValueError,
            "same number of rows, received 2 and 1",
        ),
        ("classify", ["to"], [C], ValueError, "one of the labels 0, 1, 2, 3, 4; rec"),
        ("classify", [("to", "be", "or")], [0], TypeError, "a text or a pair of texts"),
        (
            "classify",
            {"ids": np.ones((1, 2), int), "segments": np.full((1, 2), 2)},
            [0],
            ValueError,
            "num_segments=2, received 2",
        ),
        ("tag", ["to be"], [[0]], ValueError, "tag for each of 2 words, received 1"),
        ("tag", [["to", " "]], [[0, 0]], ValueError, r"x\[0\] is \['to', ' '\]"),
        ("span", ["to be"], [(5, 5)], ValueError, r"received \(5, 5\)"),
        ("span", ["to be"], [(3, 6)], ValueError, r"5 characters .*received \(3, 6\)"),
        ("span", ["to be"], [(-2, 2)], ValueError, r"received \(-2, 2\)"),
        (None, ["to be"], [0], ValueError, "fit is not available for head=None"),
        (
            "pretraining",
            [["to be", "or"]],
            None,
            ValueError,
            "expected at least two documents",
        ),
    ],
)
def test_messages_of_fit(head, x, y, error, message, tokenizer):
    wide = head == "classify" and isinstance(x, list) and isinstance(x[0], list)
    net = model(head) if wide else model(head, tokenizer)
    with pytest.raises(error, match=message):
        net.fit(x, y, verbose=0)


def test_messages_of_other_methods(tokenizer):
    net = model("classify", tokenizer)
    with pytest.raises(ValueError, match=r"fill is not available for head='classify'"):
        net.fill("to [MASK]")
    with pytest.raises(ValueError, match="with_head\\('span'\\)"):
        net.answers(["to be"])
    net = model("pretraining", tokenizer)
    with pytest.raises(ValueError, match=r"have a \[MASK\] to fill, received 'to be'"):
        net.fill("to be")
    with pytest.raises(ValueError, match="sequence_length=18 is more than"):
        net.fit(DOCUMENTS, sequence_length=18)
    with pytest.raises(ValueError, match="no tokenizer to read text with"):
        model("classify").predict(["to be"])


def test_the_example_runs(capsys):
    path = ROOT / "examples" / "pretrain_bert.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    sizes = {"epochs": 2, "steps": 2, "fine-tuning-epochs": 1, "labels": 2}
    sizes |= {"vocabulary-size": 600, "layers": 1, "hidden-dim": 8}
    tiny = [part for name, n in sizes.items() for part in (f"--{name}", str(n))]
    example.main(tiny)
    said = capsys.readouterr().out
    assert "4 steps: masked words" in said
    assert "pre-trained: " in said and "from scratch: " in said
