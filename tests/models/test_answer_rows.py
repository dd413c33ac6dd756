"""`fit(prompts, answers)` and conversations: only the tokens of answers count."""

import itertools

import keras
import numpy as np
import pytest

from kerasseq import datasets, layers, models, text
from kerasseq.models import answer_rows, answers

pytestmark = pytest.mark.once("the same on all backends")

PROMPTS = ["where is Ben?", "who are you?", "why?"]
ANSWERS = [" in Lyon.", " a model.", " it is not known."]
WORDS = " ".join([*PROMPTS, *ANSWERS])


def tokenizer():
    template = text.ChatTemplate()
    made = text.WordTokenizer(special_tokens=template.special_tokens).fit(WORDS)
    made.chat_template = template
    return made


def gpt(**options):
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 6}
    return models.GPT(tokenizer(), **{"max_sequence_length": 13, **sizes, **options})


def conversations(prompts=PROMPTS, answers=ANSWERS):
    return [
        [{"role": "user", "content": p}, {"role": "assistant", "content": a.strip()}]
        for p, a in zip(prompts, answers, strict=True)
    ]


def expected(model, prompts, answers, weights=(1, 1, 1)):
    """The loss by the equation, in NumPy."""
    total = count = 0.0
    for prompt, answer, w in zip(prompts, answers, weights, strict=True):
        before, after = map(model.tokenizer.encode, (prompt, answer))
        ids = np.concatenate([before, after])
        logits = keras.ops.convert_to_numpy(model(ids[None, :-1]))[0].astype("float64")
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for t in range(len(before), len(ids)):
            total -= w * log_p[t - 1, ids[t]]
            count += w
    return total / count


@pytest.mark.everywhere
def test_the_loss_is_the_mean_over_the_tokens_of_answers():
    keras.utils.set_random_seed(0)
    model = gpt()
    loss = expected(model, PROMPTS, ANSWERS)
    both = [loss, loss / np.log(2)]
    for batch_size in (1, 3):
        found = model.evaluate(PROMPTS, ANSWERS, batch_size=batch_size, verbose=0)
        np.testing.assert_allclose(found, both, rtol=1e-5)
    model.compile(keras.optimizers.SGD(0.0))
    data = {"validation_data": (PROMPTS, ANSWERS), "validation_batch_size": 2}
    history = model.fit(PROMPTS, ANSWERS, **data, verbose=0).history
    found = [history[name][0] for name in ("loss", "bits", "val_loss", "val_bits")]
    np.testing.assert_allclose(found, both * 2, rtol=1e-5)


@pytest.mark.everywhere
def test_it_learns_the_answers_and_chats_the_same_after_saving(tmp_path):
    keras.utils.set_random_seed(1)
    model = gpt(hidden_dim=17)
    model.compile(keras.optimizers.Adam(3e-2))
    model.fit(conversations(), epochs=40, verbose=0)
    model.save(tmp_path / "chat.keras")
    loaded = keras.models.load_model(tmp_path / "chat.keras")
    for each in (model, loaded):
        answers = [models.Chat(each, max_new_tokens=7).ask(p) for p in PROMPTS]
        assert answers == [answer.strip() for answer in ANSWERS]
    before = int(loaded.optimizer.iterations)
    loaded.fit(conversations(), verbose=0)
    assert int(loaded.optimizer.iterations) == before + 1


@pytest.mark.parametrize(
    "model",
    [
        lambda: models.LanguageModel("gru", tokenizer(), units=5),
        lambda: models.Mamba(tokenizer(), num_layers=1, hidden_dim=5),
        lambda: gpt(position="rope", memory_length=5),
    ],
    ids=["gru", "mamba", "memory"],
)
def test_any_language_model(model):
    model = model()
    loss = expected(model, PROMPTS, ANSWERS)
    assert model.evaluate(PROMPTS, ANSWERS, verbose=0)[0] == pytest.approx(loss, 1e-5)
    history = model.fit(PROMPTS, ANSWERS, epochs=3, verbose=0).history
    assert history["loss"][0] == pytest.approx(loss, 1e-5)
    assert history["loss"][-1] < history["loss"][0]


def test_weights_count_and_texts_count_whole():
    model = gpt()
    weights = [1.0, 0.0, 0.25]
    loss = expected(model, PROMPTS, ANSWERS, weights)
    found = model.evaluate(
        *(PROMPTS, ANSWERS), sample_weight=weights, batch_size=2, verbose=0
    )
    assert found[0] == pytest.approx(loss, 1e-5)
    whole, short = "Ben is a model. Ben is in Lyon. why?", conversations()[:1]
    reader = answer_rows.Reader(model.ids, model.tokenizer, 13, 5)
    rows = reader.rows([*short, whole], None, [1, 0.5])
    assert [len(row.ids) for row in rows] == [10, 6, 6, 2]
    x, y, w = answer_rows.arrays(rows, model.padded_inputs)
    assert w.sum() == 4 + 0.5 * (len(model.tokenizer.encode(whole)) - 1)
    np.testing.assert_array_equal(np.concatenate([y[1], y[2]]), [*y[1], *y[2]])
    assert x[2, 0] == y[1, 4]  # each block goes on where the one before ends
    batches = answer_rows.AnswerRows(rows, model.padded_inputs).batches(2)
    assert {batches.batch(n)[0].shape for n in range(2)} == {(2, 9)}
    history = model.fit(
        *([*short, whole],), sample_weight=[1, 0.5], sequence_length=5, verbose=0
    )
    assert np.isfinite(history.history["loss"]).all()


def test_lengths_of_neighbors_differ_wherever_a_run_is_resumed():
    rows = [answer_rows.Row(np.arange(n), np.arange(n) > 0) for n in (3, 3, 3, 5, 5)]
    for longest, expected in ((11, {2, 4, 5}), (5, {2, 4})):
        words = answer_rows.AnswerRows(rows, lambda ids, real: ids, longest)
        batches = words.batches(1, 0)
        lengths = [batches.batch(n)[0].shape[1] for n in range(7)]
        assert all(a != b for a, b in itertools.pairwise(lengths))
        assert {*lengths} == expected


def test_conversations_are_prompts_and_answers_in_the_template():
    model = gpt()
    rendered = [f"<|user|>{prompt}<|assistant|>" for prompt in PROMPTS]
    ends = [f"{answer}<|end|>" for answer in ANSWERS]
    loss = expected(model, rendered, ends)
    for x in (conversations(), [{"messages": talk} for talk in conversations()]):
        assert model.evaluate(x, verbose=0)[0] == pytest.approx(loss, 1e-5)
    first, second = conversations()[0], conversations()[2]
    both = f"{rendered[0]}{ends[0]}"
    reader = answer_rows.Reader(model.ids, model.tokenizer, 40, 64)
    (row,) = reader.rows([[*first, *second]])
    assert row.weights.sum() == len(model.tokenizer.encode(ends[0] + ends[2]))
    assert model.tokenizer.decode(row.ids).count("<|end|>") == 2
    assert len(row.ids) == len(model.tokenizer.encode(f"{both}{rendered[2]}{ends[2]}"))


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow", "datasets", "dict"])
def test_columns_of_other_packages(package):
    talks = {"messages": conversations(), "id": [1, 2, 3]}
    pairs = {"prompt": PROMPTS, "answer": ANSWERS}
    if package == "dict":
        talks, pairs = dict(talks), dict(pairs)
    else:
        module = pytest.importorskip(package)
        make = {
            "pandas": lambda data: module.DataFrame(data),
            "polars": lambda data: module.DataFrame(data),
            "pyarrow": lambda data: module.table(data),
            "datasets": lambda data: module.Dataset.from_dict(data),
        }[package]
        talks, pairs = make(talks), make(pairs)
    model = gpt()
    loss = model.evaluate(conversations(), verbose=0)[0]
    assert model.evaluate(talks, verbose=0)[0] == pytest.approx(loss, 1e-6)
    loss = model.evaluate(PROMPTS, ANSWERS, verbose=0)[0]
    found = model.evaluate(pairs["prompt"], pairs["answer"], verbose=0)[0]
    assert found == pytest.approx(loss, 1e-6)


def test_ids_of_a_model_without_a_tokenizer():
    model = models.LanguageModel("gru", vocabulary_size=7, units=3)
    prompts, answers = [[1, 2], np.array([3])], [[4], [5, 6]]
    history = model.fit(prompts, answers, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    (one, two) = answer_rows.Reader(model.ids, None, 9, 9).rows(prompts, answers)
    assert one.ids.tolist() == [1, 2, 4] and two.weights.tolist() == [0, 1, 1]


def test_parts_for_validation_and_patience():
    model = gpt()
    many = conversations(PROMPTS * 5, ANSWERS * 5)
    history = model.fit(many, validation_split=0.2, epochs=2, verbose=0).history
    assert len(history["val_loss"]) == 2
    history = model.fit(many, patience=1, epochs=2, batch_size=4, verbose=0).history
    assert "val_loss" in history
    half = model.fit(many, steps_per_epoch=2, batch_size=4, epochs=1, verbose=0)
    assert len(half.history["loss"]) == 1
    text_beside = model.fit(many, validation_data=WORDS, sequence_length=5, verbose=0)
    assert np.isfinite(text_beside.history["val_loss"]).all()
    with pytest.raises(ValueError, match="leaves none to train on"):
        model.fit(many[:1], validation_split=0.5)


def test_padding_loads_no_expert():
    """The balance loss, and who is beyond the capacity, are those without padding."""
    options = {"capacity_factor": 1.0, "router_aux_loss_coef": 0.5}
    experts = layers.MixtureOfExperts(3, 5, **options)
    model = gpt(feed_forward=experts)

    def losses(x):
        logits = keras.ops.convert_to_numpy(model(x, training=True))
        balance = keras.ops.stop_gradient(model.losses[0])
        return logits[:, :5], float(keras.ops.convert_to_numpy(balance))

    rows = answers.rows_of_answers(model, PROMPTS[:2], ANSWERS[:2], sequence_length=9)
    found = []
    for length in (8, 13):
        x, _, _ = answer_rows.arrays(rows, model.padded_inputs, length)
        found.append(losses(x))
    for each in zip(*found, strict=True):
        np.testing.assert_allclose(*each, atol=1e-6)
    assert abs(losses(x["ids"])[1] - found[1][1]) > 1e-3  # padding as tokens
    history = model.fit(PROMPTS, ANSWERS, epochs=2, verbose=0).history
    loss = model.evaluate(PROMPTS, ANSWERS, batch_size=1, verbose=0)
    assert history["loss"][1] < history["loss"][0] and np.isfinite(loss).all()


class Batches(keras.callbacks.Callback):
    """Counts the batches of validation."""

    count = 0

    def on_test_batch_end(self, batch, logs=None):
        self.count += 1


IDS = np.ones((7, 5), "int32")


@pytest.mark.parametrize(
    "held_out",
    [(IDS, IDS), WORDS * 7, (PROMPTS * 3, ANSWERS * 3), conversations() * 3],
    ids=["arrays", "text", "answers", "conversations"],
)
@pytest.mark.parametrize(
    ("sizes", "batches"), [({}, 2), ({"validation_batch_size": 99}, 1)]
)
def test_the_validation_batch_size_is_that_of_the_user(held_out, sizes, batches):
    counted, model = Batches(), gpt()
    rows = 7 if isinstance(held_out, tuple) and held_out[0] is IDS else 9
    options = {"batch_size": 5, "sequence_length": 13, "callbacks": [counted]}
    if isinstance(held_out, str):
        held_out = model.ids(held_out)[: 13 * rows + 1]
    model.fit(IDS, IDS, validation_data=held_out, **options, **sizes, verbose=0)
    assert counted.count == batches


@pytest.mark.parametrize(
    ("x", "y", "options", "error", "word"),
    [
        (PROMPTS, ANSWERS[:2], {}, ValueError, "must be as many, received 3 and 2"),
        (PROMPTS, ["", *ANSWERS[1:]], {}, ValueError, "row 0 must have a prompt and"),
        (["who?" * 20], ["a"], {}, ValueError, "row 0 must have at most 14 tokens"),
        (PROMPTS, ANSWERS, {"sample_weight": [1]}, ValueError, "each of the 3 rows"),
        ([conversations()[0][:1]], None, {}, ValueError, r"x\[0\] must have an answer"),
        ([[{"role": "x", "content": "y"}]], None, {}, ValueError, "role must be"),
        ([conversations()[0], 3], None, {}, TypeError, r"x\[1\] must be a list of"),
    ],
)
def test_wrong_answers(x, y, options, error, word):
    with pytest.raises(error, match=word):
        gpt().fit(x, y, **options)


def test_a_chat_template_is_needed():
    model = models.GPT(text.CharacterTokenizer().fit(WORDS), num_layers=1)
    with pytest.raises(ValueError, match="messages need the chat template"):
        model.fit(conversations())


def test_facts_are_true_in_both_languages():
    for language in ("en", "fr"):
        facts = datasets.conversations(language)
        for kind, sentences, questions, answer, full in zip(*facts, strict=True):
            assert full.endswith(f" {answer}.")
            assert all(s.endswith(f" {answer}.") for s in sentences)
            assert all(
                q.endswith("?") and answer not in q.split()[3:] or kind == "sum"
                for q in questions
            )
            if kind == "sum":
                numbers = [int(w) for w in sentences[0].split() if w.isdigit()]
                assert sum(numbers[:2]) == int(answer)
        asked, others = facts.split()
        first = {q for row in asked.questions for q in row}
        assert not first & {q for row in others.questions for q in row}
        assert len(facts.beginnings()) == 211
        assert not facts.beginnings()[0].endswith("0.")
