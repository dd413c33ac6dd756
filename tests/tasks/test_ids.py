"""Ids of texts are those of the tokenizer, also in models of older files."""

import pathlib
import shutil

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models, tracing
from kerasseq.models import BERT, GPT, SequenceClassifier, SequenceTagger
from kerasseq.training import restore

pytestmark = pytest.mark.full("the layers are tested everywhere")

FILES = pathlib.Path(__file__).parent / "files"
TEXTS = ["ab", "bca", "cab", "aab", "c", "bb"]
LABELS = ["x", "y", "y", "x", "y", "x"]
# What the version that wrote the files computed: probabilities of "x", those after one
# more epoch and the loss of that, and the scores of tags.
BEFORE = [0.525517, 0.467127, 0.513765, 0.523947, 0.438563, 0.557074]
LOSS = 0.631335
AFTER = [0.510653, 0.376776, 0.481507, 0.500220, 0.339802, 0.580066]
WORDS = [["ab", "c"], ["bca", "a", "b"], ["c"]]
SCORES = [0.025118, -0.023627, 0.042772, -0.040287, 0.039935, -0.037837]


def array(x):
    return keras.ops.convert_to_numpy(x)


def probabilities(model):
    return [each.probabilities["x"] for each in model.classify(TEXTS)]


def one_more_epoch(model):
    options = {"epochs": 3, "initial_epoch": 2, "batch_size": 3, "verbose": 0}
    return model.fit(TEXTS, LABELS, **options).history["loss"]


@pytest.mark.everywhere("variables of optimizers and of weights in files")
def test_files_of_ids_from_1_answer_and_train_as_before(tmp_path):
    file = FILES / "classifier_ids_from_1.keras"
    for load in (kerasseq.load_model, keras.saving.load_model):
        model = load(file)
        assert probabilities(model) == pytest.approx(BEFORE, abs=1e-5)
        # What is saved again has the rows of now, those of the optimizer, too.
        model.save(tmp_path / "again.keras")
        again = kerasseq.load_model(tmp_path / "again.keras")
        for each in (model, again):
            assert probabilities(each) == pytest.approx(BEFORE, abs=1e-5)
            assert one_more_epoch(each) == pytest.approx([LOSS], abs=1e-5)
            assert probabilities(each) == pytest.approx(AFTER, abs=1e-5)
    tagger = kerasseq.load_model(FILES / "tagger_ids_from_1.keras")
    scores = np.concatenate(tagger.predict(WORDS, verbose=0))[:3]
    np.testing.assert_allclose(scores.reshape(-1), SCORES, atol=1e-5)


@pytest.mark.once("reads files")
def test_weights_and_checkpoints_of_ids_from_1(tmp_path):
    old = kerasseq.load_model(FILES / "classifier_ids_from_1.keras")
    options = {"units": 3, "embedding_dim": 2, "pooling": "last"}
    fresh = SequenceClassifier("gru", ["x", "y"], tokenizer=old.tokenizer, **options)
    fresh.compile(keras.optimizers.SGD(0.3, momentum=0.9))
    fresh.optimizer.build(fresh.trainable_variables)
    fresh.load_weights(FILES / "classifier_ids_from_1.weights.h5")
    table = fresh.get_layer("embedding").get_weights()[0]
    fresh.save_weights(tmp_path / "again.weights.h5")
    fresh.load_weights(tmp_path / "again.weights.h5")
    np.testing.assert_array_equal(fresh.get_layer("embedding").get_weights()[0], table)
    shutil.copy(FILES / "classifier_ids_from_1.npz", tmp_path / "checkpoint.npz")
    assert restore(fresh, tmp_path) == 2
    assert probabilities(fresh) == pytest.approx(BEFORE, abs=1e-5)
    assert one_more_epoch(fresh) == pytest.approx([LOSS], abs=1e-5)
    assert probabilities(fresh) == pytest.approx(AFTER, abs=1e-5)


def text_models():
    """Models with a way to compare their answers with what they compute for ids."""
    tokenizer = kerasseq.text.CharacterTokenizer().fit("abc de")
    pieces = kerasseq.text.WordPieceTokenizer(40).fit("abc de cab bad")
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2}
    gpt = GPT(tokenizer, **sizes)
    yield SequenceClassifier("lstm", ["x", "y"], tokenizer=tokenizer, units=3)
    yield SequenceClassifier("transformer", ["x", "y"], tokenizer=pieces, units=4)
    yield gpt.with_head("classify", ["x", "y"])
    yield gpt.with_head("entail", ["x", "y"])
    yield gpt.with_head("compare", ["x", "y"])
    yield BERT(pieces, **sizes, head="classify", labels=["x", "y"])


def test_a_model_called_with_encoded_texts_answers_as_classify():
    for model in text_models():
        pair = getattr(model, "head", None) in ("entail", "compare")
        x = [("abc", "de"), ("b", "cab d")] if pair else ["abc de", "b", "cab d"]
        for each in (x, x[0]):  # several texts, and one
            found = model.classify(each)
            p = model.probabilities(array(model(model.encode(each))))
            found = [found] if each is x[0] else found
            expected = [list(one.probabilities.values()) for one in found]
            np.testing.assert_allclose(p, expected, atol=1e-5)


def test_a_model_called_with_encoded_words_answers_as_tag():
    tokenizer = kerasseq.text.WordTokenizer().fit("abc de cab")
    tagger = SequenceTagger("gru", ["N", "V"], tokenizer=tokenizer, units=3)
    for text in ("abc de cab", ["abc", "de", "cab"]):
        ids = tagger.encode(text)
        assert ids.tolist() == [tokenizer.encode("abc de cab").tolist()]
        tags = [tagger.labels[n] for n in array(tagger(ids))[0].argmax(-1)]
        assert tags == tagger.tag(text)
    several = tagger.encode(["abc de cab", "de abc"])
    assert several.shape == (2, 3) and several[1, 2] == tagger.padding_id
    assert tagger.tag(several)[1] == tagger.tag("de abc")
    bert = BERT(
        kerasseq.text.WordPieceTokenizer(40).fit("abc de cab"),
        num_layers=1,
        hidden_dim=8,
        num_heads=2,
        head="tag",
        labels=["N", "V"],
    )
    scores = array(bert(bert.encode("abc de cab")))[0]
    places = bert.preprocessor.word_rows([["abc", "de", "cab"]]).places[0]
    tags = [bert.labels[n] for n in scores[places].argmax(-1)]
    assert tags == bert.tag("abc de cab")


def test_what_language_models_and_translators_encode():
    tokenizer = kerasseq.text.CharacterTokenizer(unknown=None).fit("abc")
    model = models.LanguageModel("gru", tokenizer, units=3)
    assert model.encode(["cab", "b"]).tolist() == [[2, 0, 1], [1, 0, 0]]
    for text, scores in zip(["cab", "b"], model.predict(["cab", "b"]), strict=True):
        found = array(model(model.encode(text)))[0]
        np.testing.assert_allclose(found, scores, atol=1e-5)
    options = {"source_tokenizer": tokenizer, "target_tokenizer": tokenizer}
    for translator in (
        models.Seq2Seq("gru", **options, units=3),
        models.Transformer(**options, num_layers=1, hidden_dim=8, num_heads=2),
    ):
        source, target = translator.encode("cab")
        assert source.shape == (1, 3) and target.shape == (1, 1)
        first = 2 + array(translator((source, target)))[0, 0, 2:].argmax()  # no padding
        greedy = translator.translate("cab", max_length=1).text
        assert translator.target_vocabulary.decode(np.array([first])) == greedy
        source, target = translator.encode(["cab", "b"], ["a", "bc"])
        assert source.shape == (2, 3) and target.shape == (2, 3)
        with pytest.raises(ValueError, match="expected 2 targets.*received 1"):
            translator.encode(["cab", "b"], ["a"])


def test_answers_inside_a_trace_are_those_outside():
    for model in text_models():
        pair = getattr(model, "head", None) in ("entail", "compare")
        texts = [("abc", "de"), ("b", "cab d")] if pair else ["abc de", "b"]
        outside = [each.probabilities for each in model.classify(texts)]
        with tracing.trace(model) as several:
            inside = [each.probabilities for each in model.classify(texts)]
            with pytest.raises(RuntimeError, match="predict runs compiled code"):
                model.predict(texts)
        for found, expected in zip(inside, outside, strict=True):
            assert found == pytest.approx(expected, abs=1e-5)
        with tracing.trace(model) as one:
            model.classify(texts[0])
        with tracing.trace(model) as called:
            model(model.encode(texts[0]))
        assert list(one) == list(called) == list(several) != []
        for key in one:
            np.testing.assert_allclose(one[key], called[key], atol=1e-5)


def test_tags_and_answers_inside_a_trace():
    tokenizer = kerasseq.text.WordTokenizer().fit("abc de cab")
    tagger = SequenceTagger("gru", ["N", "V"], tokenizer=tokenizer, units=3, crf=True)
    tags = tagger.tag(["abc de", "cab"])
    with tracing.trace(tagger) as inside:
        assert tagger.tag(["abc de", "cab"]) == tags
    assert inside["gru/hidden_state"].shape == (2, 2, 3)
    silent = {"gru/hidden_state": 0.0}
    with tracing.intervene(tagger, silent):
        silenced = tagger.tag("abc de cab")
        assert silenced == ["N"] * 3 or silenced == ["V"] * 3
    pieces = kerasseq.text.WordPieceTokenizer(40).fit("abc de cab")
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2}
    bert = BERT(pieces, **sizes, head="span")
    pair = [("abc", "de cab abc")]
    answers = bert.answers(pair)
    with tracing.trace(bert) as inside:
        assert bert.answers(pair) == answers
    assert len(inside)
    filler = BERT(pieces, **sizes, head="tokens")
    (before,) = filler.fill("abc [MASK]", k=1)
    with tracing.trace(filler) as inside:
        (within,) = filler.fill("abc [MASK]", k=1)
    assert within[0][0] == before[0][0] and len(inside)


@pytest.mark.once("arguments")
def test_what_encode_refuses():
    raw = SequenceClassifier("gru", 2, vocabulary_size=5, units=3)
    with pytest.raises(TypeError, match="expected a model with a tokenizer"):
        raw.encode([[1, 2]])
    unfitted = SequenceClassifier("gru", tokenizer="character")
    with pytest.raises(ValueError, match="has not learned its"):
        unfitted.encode("ab")
    tokenizer = kerasseq.text.CharacterTokenizer().fit("ab")
    model = SequenceClassifier("gru", 2, tokenizer=tokenizer, units=3)
    with pytest.raises(ValueError, match="must have at least one token"):
        model.encode(["a", ""])
    with pytest.raises(TypeError, match=r"x\[1\] must be a string"):
        model.encode(["a", 3])
    with pytest.raises(ValueError, match="expected x from 0 to 3.*received 4"):
        model.predict(np.array([[0, model.padding_id + 1]]), verbose=0)
