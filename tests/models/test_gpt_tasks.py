"""GPT with a task on top: what it reads, what it answers from, what it learns."""

import functools

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import GPT, GPTTask
from kerasseq.models.gpt.gpt_task import HEADS
from kerasseq.text import BytePairTokenizer, CharacterTokenizer

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

LETTERS = " abcdefg"
V, D, C, LONGEST = len(LETTERS), 12, 5, 29
START, DELIMITER, EXTRACT, PAD = V, V + 1, V + 2, V + 3
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": D}
CLASSES = {"classify": C, "entail": C, "compare": C, "tag": C}
PAIRS = [("abc", "de"), ("g", "fed")]
TEXTS = {
    "classify": ["abc", "g"],
    "entail": PAIRS,
    "compare": PAIRS,
    "choose": [("abc", ["de", "f", "gg"]), ("g", ["fed", "a"])],
    "reward": [
        {"prompt": "abc", "chosen": "de", "rejected": "f"},
        {"prompt": "g", "chosen": "a", "rejected": "fed"},
    ],
    "tag": ["ab c", "g"],
    "span": [("abc", "de fg"), "gab"],
}
LABELS = {
    "classify": [4, 0],
    "entail": [1, 3],
    "compare": [2, 4],
    "choose": [2, 1],
    "reward": [0, 0],
    "tag": [[4, 1], [2]],
    "span": [(3, 5), None],
}


def array(x):
    return keras.ops.convert_to_numpy(x)


def letters():
    tokenizer = CharacterTokenizer(unknown=None).fit(LETTERS)
    assert tokenizer.vocabulary_size == V
    return tokenizer


@functools.cache
def trained(**options):
    """A GPT with weights that are all different, as if it had been trained."""
    return filled(GPT(letters(), **SIZES, max_sequence_length=LONGEST, **options))


def filled(model, seed=0):
    rng = np.random.default_rng(seed)
    model.set_weights([0.4 * rng.normal(size=w.shape) for w in model.weights])
    return model


@functools.cache
def known(head):
    """A task that no test changes."""
    return made(head)


def made(head, seed=1, gpt=None, **options):
    gpt = gpt or trained()
    return filled(gpt.with_head(head, labels=CLASSES.get(head), **options), seed)


def run(task, x):
    """What `predict` gives, without compiling anything."""
    rows = task.task.read(task.preprocessor, x)
    y = task(rows.arrays, training=False)
    return {n: array(v) for n, v in y.items()} if isinstance(y, dict) else array(y)


def ids_of(text):
    return [LETTERS.index(c) for c in text]


def row(*texts):
    """Figure 1 by hand."""
    ids = [START]
    for text in texts:
        ids += [*ids_of(text), DELIMITER]
    return [*ids[:-1], EXTRACT]


ROWS = {
    "classify": [[row("abc")], [row("g")]],
    "entail": [[row("abc", "de")], [row("g", "fed")]],
    "compare": [
        [row("abc", "de"), row("de", "abc")],
        [row("g", "fed"), row("fed", "g")],
    ],
    "choose": [
        [row("abc", "de"), row("abc", "f"), row("abc", "gg")],
        [row("g", "fed"), row("g", "a")],
    ],
    "reward": [[ids_of("abcde"), ids_of("abcf")], [ids_of("ga"), ids_of("gfed")]],
    "tag": [[row("ab c")], [row("g")]],
    "span": [[row("abc", "de fg")], [row("gab")]],
}


@functools.cache
def own_model(task):
    return task.language_model()


def vectors(task, ids):
    """What the layers of GPT make of one row without padding, `(T, D)`."""
    own = own_model(task)
    E = np.concatenate(
        [
            array(task.get_layer(name).embeddings)
            for name in ("embedding", "mark_embedding")
        ]
    )
    x = np.zeros((1, 16, D), "float32")
    x[0, : len(ids)] = E[ids]  # what comes after changes nothing
    return array(own.stack.hidden_states(keras.ops.convert_to_tensor(x))[0])[
        0, : len(ids)
    ]


def dense(task, name, h):
    W, b = map(array, task.get_layer(name).weights)
    return h @ W + b


@pytest.mark.parametrize("head", HEADS)
def test_which_ids_go_in_and_in_which_order(head):
    task = known(head)
    ids = task.task.read(task.preprocessor, TEXTS[head]).arrays["ids"]
    rows = ids if ids.ndim == 3 else ids[:, None]
    assert rows.shape == (2, max(map(len, ROWS[head])), (16, 8)[rows.shape[2] == 8])
    for found, wanted in zip(rows, ROWS[head], strict=True):
        for k, each in enumerate(found):
            one = wanted[k] if k < len(wanted) else []
            assert each.tolist() == one + [PAD] * (len(each) - len(one))


@pytest.mark.parametrize("options", [{}, {"position": "rope", "tie_embeddings": False}])
def test_what_is_answered_comes_from_the_last_vector(options):
    gpt = trained(**options)
    for head, name in [("classify", "classes"), ("entail", "classes")]:
        task = made(head, gpt=gpt)
        wanted = [dense(task, name, vectors(task, rows[0])[-1]) for rows in ROWS[head]]
        found = run(task, TEXTS[head])
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    task = made("compare", gpt=gpt)
    wanted = [
        dense(task, "classes", sum(vectors(task, one)[-1] for one in rows))
        for rows in ROWS["compare"]
    ]
    found = run(task, PAIRS)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    turned = run(task, [pair[::-1] for pair in PAIRS])
    np.testing.assert_allclose(turned, found, atol=1e-5)
    task = made("choose", gpt=gpt)
    found = run(task, TEXTS["choose"])
    for n, rows in enumerate(ROWS["choose"]):
        wanted = [dense(task, "choice", vectors(task, one)[-1])[0] for one in rows]
        np.testing.assert_allclose(found[n, : len(rows)], wanted, atol=1e-5)
    assert found.shape == (2, 3) and found[1, 2] < -1e4  # there is no third answer


def test_words_are_answered_at_their_ends():
    task = known("tag")
    found = task.predict(["ab c", "g"], verbose=0)
    by_words = task.predict([["ab", "c"], ["g"]], verbose=0)
    by_ids = task.predict([ids_of("ab c"), ids_of("g")], verbose=0)
    h = vectors(task, ROWS["tag"][0][0])  # [start] a b _ c [extract]
    wanted = dense(task, "tags", h)
    np.testing.assert_allclose(found[0], wanted[[2, 4]], atol=1e-5)
    np.testing.assert_allclose(by_words[0], wanted[[2, 4]], atol=1e-5)
    np.testing.assert_allclose(by_ids[0], wanted[1:5], atol=1e-5)
    assert [len(r) for r in found] == [2, 1] and len(by_ids[1]) == 1
    _, labels, weights = task.arrays(TEXTS["tag"], LABELS["tag"])
    assert labels[0, [2, 4]].tolist() == [4, 1] and weights.sum() == 3


def test_words_keep_the_spaces_before_them():
    text = "low lower lowest low lower lowest slow slower"
    tokenizer = BytePairTokenizer(300).fit(text)
    gpt = GPT(tokenizer, **SIZES, max_sequence_length=LONGEST)
    task = gpt.with_head("tag", labels=2)
    rows = task.preprocessor.word_rows([text.split()[:4], text[:14]])
    ids = rows.arrays["ids"][0]
    size = tokenizer.vocabulary_size
    said = tokenizer.decode([i for i in ids if i < size])
    assert said == "low lower lowest low"
    ends = [len(tokenizer.decode(ids[1 : p + 1])) for p in rows.places[0]]
    assert ends == [3, 9, 16, 20]
    assert len(rows.places[1]) == 3


def test_spans_and_no_answer_at_the_last_mark():
    task = known("span")
    x, y, _ = task.arrays(TEXTS["span"], LABELS["span"])
    assert x["ids"][0, y["start"][0] : y["end"][0] + 1].tolist() == ids_of("fg")
    assert y["start"][1] == y["end"][1] == x["ids"][1].tolist().index(EXTRACT)
    logits = run(task, TEXTS["span"])
    wanted = dense(task, "span", vectors(task, ROWS["span"][1][0]))
    np.testing.assert_allclose(logits["start"][1, :5], wanted[:, 0], atol=1e-5)
    np.testing.assert_allclose(logits["end"][1, :5], wanted[:, 1], atol=1e-5)


def test_spans_of_lists():
    """Pairs may be lists, and in texts of ids an id counts as a character."""
    task = known("span")
    texts, labels = [("abc", "de fg"), "gab"], [(3, 5), None]
    x, wanted, _ = task.arrays(texts, labels)
    lists = [["abc", "de fg"], "gab"]
    ids = [(ids_of("abc"), ids_of("de fg")), ids_of("gab")]
    for given in (lists, ids, ids[::-1]):
        found, y, _ = task.arrays(given, labels[:: -1 if given[0] == ids[1] else 1])
        order = [1, 0] if given[0] == ids[1] else [0, 1]
        np.testing.assert_array_equal(found["ids"], x["ids"][order])
        for name in ("start", "end"):
            np.testing.assert_array_equal(y[name], wanted[name][order])
    said = task.answers(texts, verbose=0)
    assert task.answers(lists, verbose=0) == said and any(said)
    said = [None if each is None else ids_of(each) for each in said]
    assert task.answers(ids, verbose=0) == said


def test_weights_of_rows_and_data_to_look_at():
    task = known("classify")
    x, y = TEXTS["classify"], LABELS["classify"]
    first = task.evaluate(x[:1], y[:1], verbose=0)[0]
    found = task.evaluate(x, y, sample_weight=[1, 0], verbose=0)[0]
    assert found == pytest.approx(first, rel=1e-5)
    assert task.evaluate(np.array(x), y, verbose=0) == task.evaluate(x, y, verbose=0)
    task = made("classify")
    task.compile(keras.optimizers.SGD(0.0))
    for data in ((x, y, [1, 0]), [x[:1], y[:1]]):
        history = task.fit(x, y, validation_data=data, verbose=0).history
        assert history["val_loss"][0] == pytest.approx(first, rel=1e-5)


@pytest.mark.parametrize(
    ("head", "position"),
    [*((head, "learned") for head in HEADS), ("compare", "relative"), ("tag", "rope")],
)
def test_padding_changes_nothing(head, position):
    task = made(head, gpt=trained(position=position, sliding_window=5))
    ids = task.task.read(task.preprocessor, TEXTS[head]).arrays["ids"]
    y = run(task, ids)
    whole = [(0, 0)] * (ids.ndim - 1)
    for before, after in ((0, 5), (5, 0), (2, 3)):
        padded = np.pad(ids, [*whole, (before, after)], constant_values=PAD)
        found = run(task, padded)
        if head in ("tag", "span"):
            parts = slice(before, before + ids.shape[-1])
            real = ids != PAD
            found, wanted = (
                [v[:, s][real] for v in (o.values() if head == "span" else [o])]
                for o, s in ((found, parts), (y, slice(None)))
            )
            np.testing.assert_allclose(found, wanted, atol=1e-5)
        else:
            np.testing.assert_allclose(found, y, atol=1e-5)


def test_old_ids_give_what_they_gave():
    gpt = trained(embedding_norm=True)
    task = gpt.with_head("classify", labels=2)
    ids = np.array([ids_of("abcdefg "), ids_of("gg ab fe")])
    upto = keras.Model(task.input, task.get_layer("last").input[0])
    wanted = gpt.stack.hidden_states(gpt.stack.embedding(ids))[0]
    np.testing.assert_allclose(array(upto({"ids": ids})), array(wanted), atol=1e-6)
    kept = gpt.get_weights()
    for variable in task.weights:
        variable.assign(variable + 1)
    for now, old in zip(gpt.get_weights(), kept, strict=True):
        np.testing.assert_array_equal(now, old)  # the two share nothing


@pytest.mark.parametrize(("head", "tied"), [("entail", False), ("compare", True)])
def test_the_loss_of_the_language_model(head, tied):
    gpt = trained(tie_embeddings=tied)
    x, y = TEXTS[head], np.array(LABELS[head])
    task, both = made(head, gpt=gpt), made(head, gpt=gpt, language_model_weight=0.5)
    both.set_weights(task.get_weights())
    arrays = task.arrays(x, y)[0]
    plain = task.evaluate(x, y, verbose=0)[0]
    assert both.evaluate(x, y, verbose=0)[0] == pytest.approx(plain, rel=1e-5)
    table = both.language_model().stack.embedding
    E = array(table.embeddings if tied else table.reverse_embeddings.value)
    losses = []
    for rows in ROWS[head]:
        for ids in rows:
            logits = vectors(both, ids)[:-1] @ (E.T if tied else E)
            log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            losses += [-log_p[t, i] for t, i in enumerate(ids[1:]) if i < V]
    assert len(losses) == sum(i < V for rows in ROWS[head] for ids in rows for i in ids)
    without = task.train_on_batch(arrays, y, return_dict=True)["loss"]
    assert without == pytest.approx(plain, rel=1e-5)
    found = both.train_on_batch(arrays, y, return_dict=True)["loss"]
    assert found == pytest.approx(plain + 0.5 * np.mean(losses), rel=1e-4)
    assert both.with_head("span")._arguments["language_model_weight"] == 0.5


@pytest.mark.parametrize(
    ("head", "weight"), [("span", 0.0), ("choose", 0.5), ("compare", 0.0), ("tag", 0.5)]
)
def test_every_weight_moves(head, weight):
    gpt = trained(tie_embeddings=False)
    task = made(head, gpt=gpt, language_model_weight=weight)
    task.compile(keras.optimizers.SGD(1.0))
    before = {w.path: array(w).copy() for w in task.weights}
    task.fit(TEXTS[head], LABELS[head], verbose=0)
    allowed = ("key/bias",)  # softmax does not see what is the same for all
    if head in ("choose", "span"):
        allowed += ("choice/bias", "span/bias") + ("final_norm/beta",) * (weight == 0)
    still = [
        path
        for path, w in ((w.path, array(w)) for w in task.weights)
        if not path.endswith(allowed) and np.abs(w - before[path]).max() < 1e-7
    ]
    assert still == ["embedding/reverse_embeddings"] * (weight == 0)  # not read then


def learn(head, texts, y, epochs=30, **options):
    """Train on some and measure on others."""
    keras.utils.set_random_seed(0)
    gpt = GPT(letters(), **{**SIZES, "hidden_dim": 24}, max_sequence_length=LONGEST)
    task = gpt.with_head(head, **options)
    task.compile(keras.optimizers.Adam(5e-3))
    task.fit(texts[16:], y[16:], batch_size=16, epochs=epochs, verbose=0)
    return task.evaluate(texts[:16], y[:16], verbose=0, return_dict=True)


def drawn(number=112, length=5, seed=1):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abcdefg"), length)) for _ in range(number)]


def test_it_learns_which_class():
    texts = drawn()
    labels = [int("a" in text) for text in texts]
    found = learn("classify", texts, labels, labels=2, language_model_weight=0.5)
    assert found["accuracy"] > 0.9


def test_it_learns_which_answer():
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for text in drawn():
        label = int(rng.integers(3))
        answers = ["ab", "cd", "ef"] if label < 2 else ["fe", "cd", "gb"]
        answers[label] = "g" + answers[label][0]
        texts.append((text, answers[: 2 + (label > 1)]))
        labels.append(label)
    assert learn("choose", texts, labels, epochs=12)["accuracy"] > 0.9


@pytest.mark.parametrize("head", ["entail", "compare", "choose", "span"])
def test_saved_and_loaded(head, tmp_path):
    gpt = trained(position="relative", dropout=0.1)
    task = made(head, gpt=gpt, language_model_weight=0.3, dropout=0.2)
    task.save(tmp_path / "task.keras")
    loaded = kerasseq.load_model(tmp_path / "task.keras")
    assert isinstance(loaded, GPTTask) and loaded.get_config() == task.get_config()
    assert (loaded.head, loaded.tokenizer) == (head, task.tokenizer)
    found, wanted = (run(m, TEXTS[head]) for m in (loaded, task))
    for a, b in zip(
        found.values() if head == "span" else found,
        wanted.values() if head == "span" else wanted,
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    if head == "compare":
        loaded.fit(TEXTS[head], LABELS[head], verbose=0)


def test_from_head_to_head_and_back():
    gpt = trained()
    task = made("classify", gpt=gpt.with_head("classify", labels=C), seed=5)
    other = task.with_head("entail", labels=C)
    x = np.array([row("abc", "de")])
    np.testing.assert_array_equal(run(other, x), run(task, x))
    anew = task.with_head("entail", labels=C + 1)
    assert run(anew, x).shape == (1, C + 1)
    wanted = gpt.generate("abc", 9, temperature=0)
    fresh = gpt.with_head("choose")
    assert fresh.with_head(None).generate("abc", 9, temperature=0) == wanted
    assert isinstance(task.language_model(), GPT)


@pytest.mark.everywhere("training frees the arrays that it replaces")
def test_a_new_head_has_its_own_arrays():
    gpt = trained()
    task = gpt.with_head("classify", labels=C)
    other = task.with_head("entail", labels=C)
    arrays = [w.value for model in (gpt, task, other) for w in model.weights]
    assert len({id(x) for x in arrays}) == len(arrays)


def test_lora_goes_along():
    gpt = trained()
    task = gpt.with_head("classify", labels=C)
    ids = np.array([ids_of("abcdefg "), ids_of("gg ab fe")])
    dense = task.get_layer("block_1")._self_attention_layer.query_dense
    dense.enable_lora(2)
    for n, part in enumerate((dense.lora_kernel_a, dense.lora_kernel_b)):
        part.assign(np.random.default_rng(n).normal(size=part.shape))
    wanted = run(task, ids)
    assert np.abs(wanted - run(made("classify"), ids)).max() > 1e-3
    np.testing.assert_allclose(
        run(task.with_head("entail", labels=C), ids), wanted, atol=1e-5
    )
    own = task.language_model()
    again = own.with_head("classify", labels=C)
    again.get_layer("classes").set_weights(task.get_layer("classes").get_weights())
    again.get_layer("mark_embedding").set_weights(
        task.get_layer("mark_embedding").get_weights()
    )
    np.testing.assert_allclose(run(again, ids), wanted, atol=1e-5)
    task.get_layer("classes").quantize("int8")
    with pytest.raises(ValueError, match="'classes' must have 2 weights.*received 3"):
        task.with_head("entail", labels=C)


def test_ids_in_the_place_of_texts():
    bare = GPT(vocabulary_size=V, **SIZES, max_sequence_length=LONGEST)
    for head in ("classify", "entail", "compare", "choose"):
        task = known(head)
        other = bare.with_head(head, labels=CLASSES.get(head))
        other.set_weights(task.get_weights())

        def ids(part):
            if isinstance(part, str):
                return ids_of(part)
            return type(part)(map(ids, part))

        found = run(other, [ids(each) for each in TEXTS[head]])
        wanted = run(task, TEXTS[head])
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_mixed_precision():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        task = made("choose", language_model_weight=0.5)
        loss = task.fit(TEXTS["choose"], [2, 1], verbose=0).history["loss"][0]
        y = task(task.preprocessor.choice_rows(TEXTS["choose"]).arrays)
    finally:
        keras.config.set_dtype_policy(before)
    assert keras.backend.standardize_dtype(y.dtype) == "float32"
    assert task.get_layer("block_0").compute_dtype == "bfloat16"
    assert np.isfinite(loss)


@pytest.mark.parametrize(
    ("head", "x", "y", "error", "message"),
    [
        ("classify", ["a" * 28], [0], ValueError, "0 has 30 tokens.*length=29 at most"),
        ("classify", ["ab", ""], [0, 0], ValueError, r"x\[1\] is ''"),
        ("entail", [("ab", "")], [0], ValueError, r"x\[0\] is \('ab', ''\)"),
        ("classify", PAIRS, [0, 0], TypeError, 'single texts.*with_head\\("entail"\\)'),
        ("entail", ["ab"], [0], TypeError, "a pair of texts .*, received 'ab'"),
        ("compare", [("a", "b", "c")], [0], TypeError, "a pair of texts"),
        ("entail", [("a", 3)], [0], TypeError, "a string or a list of ids, received 3"),
        ("choose", [("a", "b")], [0], TypeError, "list of at least two answers"),
        ("choose", [("a", ["b"])], [0], TypeError, "list of at least two answers"),
        ("choose", TEXTS["choose"], [0, 2], ValueError, r"row 1 has 2 .*y\[1\]=2"),
        (
            "choose",
            TEXTS["choose"],
            [0, 3],
            ValueError,
            "answers=3, received 3",
        ),
        ("classify", ["a"], [C], ValueError, "one of the labels 0, 1, 2, 3, 4; rec"),
        ("classify", ["a"], [-1], ValueError, "received -1"),
        ("classify", ["a"], ["good"], ValueError, "received 'good'"),
        (
            "classify",
            ["a", "b"],
            [0],
            ValueError,
            "same number of rows, received 2 and 1",
        ),
        ("classify", [[V]], [0], ValueError, "ids from 0 to 7, as vocabulary_size=8"),
        ("classify", np.array([[V + 4]]), [0], ValueError, "from 0 to 11.*received 12"),
        ("classify", np.zeros((1, 30), int), [0], ValueError, "30 tokens.*length=29"),
        ("choose", np.zeros((1, 7), int), [0], ValueError, r"\(examples, rows, time\)"),
        ("tag", [["a", " "]], [[0, 0]], ValueError, r"x\[0\] is \['a', ' '\]"),
        ("tag", ["ab c"], [[0]], ValueError, "tag for each of 2 words, received 1"),
        ("span", ["ab"], [(1, 1)], ValueError, r"received \(1, 1\)"),
        ("span", ["ab"], [(1, 3)], ValueError, r"2 characters .*received \(1, 3\)"),
        (
            "span",
            np.array([[1, 2]]),
            [(0, 2)],
            ValueError,
            "0 to 1 for the length",
        ),
        ("span", np.array([[1, 2]]), [(1, 0)], ValueError, r"first and the last index"),
        ("span", np.array([[1, 2]]), [1], ValueError, r"\(rows, 2\), received \[1\]"),
        ("tag", [1], [[0]], TypeError, "a list of words or a list of ids, received 1"),
        (
            "classify",
            "abc",
            [0, 1],
            ValueError,
            "same number of rows, received 1 and 2",
        ),
        ("classify", [], [], ValueError, "at least one row of x, received"),
        (
            "classify",
            ["a"],
            None,
            ValueError,
            "expected labels y for the inputs, received y=None",
        ),
    ],
)
def test_messages_of_fit(head, x, y, error, message):
    with pytest.raises(error, match=message):
        known(head).fit(x, y, verbose=0)


@pytest.mark.parametrize(
    ("head", "options", "error", "message"),
    [
        ("chose", {}, ValueError, 'head="chose" is not one of.*Did you mean "choose"'),
        ("classify", {"labels": 1.5}, TypeError, "labels must be a whole number"),
        ("choose", {"labels": 3}, ValueError, "labels must be None for"),
        ("choose", {"multi_label": True}, ValueError, "multi_label must be False"),
        ("tag", {"labels": 3, "truncate": True}, ValueError, "truncate must be Fals"),
        (
            "span",
            {"language_model_weight": -1},
            ValueError,
            "must be 0 or more, received -1",
        ),
        (
            "span",
            {"language_model_weight": "a"},
            TypeError,
            "must be a number, received 'a'",
        ),
        ("span", {"dropout": 1.5}, ValueError, "1.5"),
    ],
)
def test_messages_of_with_head(head, options, error, message):
    with pytest.raises(error, match=message):
        trained().with_head(head, **options)


def test_messages_of_other_methods():
    with pytest.raises(
        TypeError, match="gpt must be a kerasseq.models.GPT, received 'gpt'"
    ):
        GPTTask("gpt", "span")
    with pytest.raises(ValueError, match="answers is not available for head='choose'"):
        known("choose").answers(["ab"])
    with pytest.raises(TypeError, match="must be a list of texts.*received ndarray"):
        known("span").answers(np.array([[1, 2]]))
    bare = GPT(vocabulary_size=V, **SIZES).with_head("classify", labels=2)
    with pytest.raises(ValueError, match="no tokenizer to read text with"):
        bare.predict(["ab"])
