"""The lab Language model: distributions, text that streams, uploads and their runs."""

import contextlib
import html
import io
import json
import shutil

import numpy as np
import pytest

from parts import (
    browser,
    language_models,
    places,
    prepared,
    run_panel,
    streams,
    uploads,
)
from tests.apps import pages
from tests.apps.test_bad_input import TEXTS
from tests.apps.test_panel import button
from tests.apps.test_runs import until

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]

TEXT = "To be, or not to be: that is the question.\n" * 30  # 1290 characters
NGRAM = 3, None


@pytest.fixture
def folder(folder, models):
    """Returns the folder of a network."""
    return lambda name: models(f"language_model_{name}")


def softmax(z):
    p = np.exp(z - z.max())
    return p / p.sum()


def filtered(p, temperature, k, top_p, min_p):
    """The distribution after each filter, in the order of Hugging Face."""
    p = softmax(np.log(p) / temperature)
    stages = [p]
    p = np.where(p >= np.sort(p)[-k], p, 0)
    stages.append(p := p / p.sum())
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]
    p = np.where(np.isin(np.arange(len(p)), order[before < top_p]), p, 0)
    stages.append(p := p / p.sum())
    p = np.where(p >= min_p * p.max(), p, 0)
    stages.append(p / p.sum())
    return stages


@pytest.mark.parametrize("name", ["ngram", "gpt"])
def test_the_next_character_after_each_filter(folder, name):
    import keras

    import kerasseq

    sampling = {"temperature": 0.7, "top_k": 11, "top_p": 0.7, "min_p": 0.3}
    if name == "ngram":
        model, prompt = NGRAM, "the cla"
        p = language_models.ngram(*NGRAM).probabilities(prompt)
        decode = language_models.ngram(*NGRAM).tokenizer.decode
    else:
        model, prompt = folder(name), "ab"
        network = kerasseq.load_model(model / "model.keras")
        logits = network(network.ids(prompt)[None])
        p = softmax(keras.ops.convert_to_numpy(logits)[0, -1].astype("float64"))
        decode = network.tokenizer.decode
    found = language_models.next_token(model, prompt, sampling)
    order = np.argsort(-p, kind="stable")
    assert found["tokens"][:11] == [decode([i]) for i in order[:11]]
    assert list(found["stages"]) == ["model", "temperature", "top_k", "top_p", "min_p"]
    expected = filtered(p, *sampling.values())
    for stage, one in zip(found["stages"].values(), [p, *expected], strict=True):
        np.testing.assert_allclose(stage, one[order], atol=1e-5)
    for n, stage in enumerate(("top_k", "top_p", "min_p")):
        kept, cut, share = found["cuts"][stage]
        before, after = expected[n : n + 2]
        assert kept == (after > 0).sum()
        assert cut == (before > 0).sum() - kept
        np.testing.assert_allclose(share, before[after == 0].sum(), atol=1e-5)


def test_temperature_0_keeps_one():
    found = language_models.next_token(NGRAM, "the cla", {"temperature": 0.0})
    assert found["tokens"][0] == "s"
    assert found["cuts"]["sampler"][0] == 1


def test_a_network_streams_what_it_generates(folder):
    import kerasseq

    sampling = {"temperature": 0.7, "top_k": 7}
    found = "".join(language_models.stream(folder("elman"), "ab", 9, sampling, 5))
    model = kerasseq.load_model(folder("elman") / "model.keras")
    assert "ab" + found == model.generate("ab", 9, seed=5, **sampling)


def test_ngrams_stream(folder):
    greedy = "".join(language_models.stream(NGRAM, "the ", 20, {"temperature": 0.0}, 0))
    model = language_models.ngram(*NGRAM)
    assert "the " + greedy == model.generate("the ", 20, temperature=0)
    first, again, other = (
        "".join(language_models.stream(NGRAM, "the ", 40, {}, seed))
        for seed in (1, 1, 2)
    )
    assert first == again != other
    # As frequent as the model says: the standard error of the share is 0.011.
    many = (next(language_models.stream(NGRAM, "the", 1, {}, s)) for s in range(2000))
    share = sum(character == " " for character in many) / 2000
    p = model.probabilities("the")[model.tokenizer.encode(" ")[0]]
    assert abs(share - p) < 0.05


def test_surprise_and_the_part_held_out(folder):
    import kerasseq

    pieces, bits = language_models.surprise(folder("lstm"), "abba c")
    model = kerasseq.load_model(folder("lstm") / "model.keras")
    assert "".join(pieces) == "abba c"
    np.testing.assert_allclose(np.nanmean(bits), model.bits_per_token("abba c"))
    pieces, bits = language_models.surprise(NGRAM, "the object")
    log_p = language_models.ngram(*NGRAM).log_probabilities("the object")
    np.testing.assert_allclose(bits[1:], -log_p[1:] / np.log(2))
    assert np.isnan(bits[0])
    train, test = language_models.split(None)
    assert train + test == kerasseq.datasets.python_reference()
    assert len(test) == language_models.HELD_OUT


def test_the_recipes_are_compared_on_the_part_that_ngrams_are_not_fitted_to():
    from kerasseq.cli.language_model import split
    from kerasseq.cli.main import parse

    recipes = prepared.recipes().values()
    found = [one.words for one in recipes if one.lab == "language_model"]
    assert len(found) == 16
    for words in found:
        settings = parse(["train", *words, "--run", "x"])
        for text in ("abc" * 13, "abc" * 100_000):
            held_out = split(text, settings.held_out)[1]
            file = uploaded(text)
            assert language_models.split(file)[1] == held_out
            file.unlink()


def uploaded(text):
    file = places.root() / "text.txt"
    file.write_text(text)
    return file


def press(page, name):
    button(page, name, "language_model").click().run()
    return pages.checked(page)


def test_a_text_streams_on_the_page(monkeypatch):
    monkeypatch.setattr(streams, "MOST", 31)
    monkeypatch.setattr(streams, "FEWEST", 31)
    state = {"view": "write", "model": "ngram", "text": "ab", "length": "50"}
    page = pages.open_lab("language_model", seed="3", top_k="10", **state)
    press(page, "write")
    expected = "".join(language_models.stream(NGRAM, "ab", 50, {"top_k": 10}, 3))
    drawn = " ".join(element.value for element in page.get("html"))
    assert f">{html.escape(expected[:31])}</span>" in drawn


def run(code):
    """Runs the code of a page, and returns what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "page", "exec"), {})
    return printed.getvalue()


@pytest.fixture
def beside(folder, tmp_path, monkeypatch):
    """The code of a page runs in a folder in which its networks are trained already."""
    monkeypatch.chdir(tmp_path)
    for name in ("gpt", "lstm", "elman", "min_gru", "wavenet"):
        place = tmp_path / f"language-model-{name.replace('_', '-')}"
        shutil.copytree(folder(name), place)


def test_views_in_french_with_their_code(beside):
    state = {"lang": "fr", "text": "the cla", "length": "50"}
    page = pages.open_lab("language_model", view="write", model="gpt", **state)
    assert len(run(page.code[0].value)) >= 50
    page = pages.open_lab("language_model", view="write", model="ngram", **state)
    sampling = {"temperature": 1.0}
    expected = "".join(language_models.stream(NGRAM, "the cla", 50, sampling, 0))
    assert run(page.code[0].value) == f"the cla{expected}\n"
    page = pages.open_lab("language_model", view="surprise", model="lstm", **state)
    means = [m.value for m in page.markdown if "bits par caractère" in m.value]
    assert len(means) == 2
    printed = run(page.code[0].value)
    for mean in means:
        assert mean.split("**")[1].replace(",", ".").rstrip("0") in printed
    page = pages.open_lab("language_model", model="ngram", top_k="2", **state)
    assert "'s' {'model': " in run(page.code[0].value)


def test_comparison_of_all_models(beside):
    page = pages.open_lab("language_model", view="compare", lang="fr")
    (table,) = page.dataframe
    columns = table.value["Modèle"], table.value["Bits par caractère"]
    bits = dict(zip(*columns, strict=True))
    assert bits["LSTM"] == 2.5  # of the results of the small model
    assert bits["n-grammes, n = 6"] < bits["n-grammes, n = 2"] < 4
    # Quicker, with one kind of n-grams and a part of the text.
    code = page.code[0].value.replace("[1, 2, 3, 4, 5, 6]", "[2]")
    code = code.replace("python_reference()", "python_reference()[-9000:]")
    assert len(run(code).splitlines()) == 6  # 2-grams and five networks


def test_chosen_models_are_compared():
    chosen = {"view": "compare", "compared": "mamba~rwkv4"}
    page = pages.open_lab("language_model", **chosen)
    found = {name for name in page.dataframe[0].value["Model"] if "n-gr" not in name}
    assert found == {"Mamba", "RWKV-4"}
    page = pages.open_lab("language_model", view="next", model="s4d", text="the cla")
    assert "language-model --data python-reference --model s4d" in page.code[0].value


def test_any_text_is_taken_or_refused_in_a_sentence():
    page = pages.open_lab("language_model", view="surprise", model="ngram")
    for name in ("empty", "one", "emoji", "right to left", "control", "long"):
        pages.control(page, "text").set_value(TEXTS[name]).run()
        assert [e.message for e in page.exception] == []
        refused = ["at least" in error.value for error in page.error]
        assert refused == ([True] if name in ("empty", "one") else [])
        assert page.subheader[0].value == "Try this"
    assert len(pages.control(page, "text").value) == 600


def test_an_own_text_is_kept_trained_on_and_shown(folder, stub):
    page = pages.open_lab("language_model", corpus="own", view="next")
    assert "Choose a text file" in " ".join(m.value for m in page.markdown)
    page.file_uploader[0].upload("../../a.txt", b"x", "text/plain").run()
    assert "1,000 characters" in page.error[0].value
    page.file_uploader[0].upload("../../a.txt", TEXT.encode(), "text/plain").run()
    pages.checked(page)  # n-grams of this text
    (file,) = (places.root() / "uploads").glob("*/*.txt")
    assert file.read_text() == TEXT
    assert "text_file('my_data.txt')" in page.code[0].value
    press(page, "start_runs")
    owner = file.parent.name
    (run,) = run_panel.manager().of(owner, "language_model")
    assert str(file) in run.request.words
    assert "python-reference" not in run.request.words
    until(lambda: run_panel.manager().run(owner, run.id).state == "finished")
    for name in ("model.keras", "results.json"):
        shutil.copy(folder("lstm") / name, run.folder / name)
    pages.checked(page.run())
    assert page.session_state["language_model.model"] == "ngram"
    page.session_state["language_model.model"] = run.id
    assert "To be or not to" in pages.checked(page.run()).selectbox[0].options[0]
    assert str(places.root()) not in page.code[0].value
    assert f"'{run.id}',\n" in page.code[0].value  # trained there
    assert "--text my_data.txt" in page.code[0].value
    reloaded = pages.open_lab("language_model", corpus="own", view="compare")
    (table,) = reloaded.dataframe
    assert len(table.value) == len(language_models.ORDERS) + 1


def test_uploads_of_a_browser(folder, monkeypatch):
    monkeypatch.setattr(browser, "owner", lambda: "one")
    first, second = (uploads.keep(content, "txt") for content in (b"a", b"b"))
    assert [*uploads.folder().iterdir()] == [second]  # no run uses the first
    assert uploads.keep(b"a", "txt") == first
    monkeypatch.setattr(browser, "owner", lambda: "two")
    other = uploads.keep(b"a", "txt")
    assert other.parent != first.parent
    assert first.exists()


def test_a_generated_text_has_a_line_of_the_least_bits(folder, stub):
    import kerasseq

    text, best = language_models.generated()
    source = kerasseq.datasets.markov_source(5, order=2, seed=0)
    assert best == source.optimum and set(text) == set("abcde")
    page = pages.open_lab("language_model", corpus="source", view="next")
    shown = " ".join(m.value for m in page.markdown)
    assert f"{best:.3f}" in shown and not page.file_uploader
    assert "markov_source(5, order=2" in page.code[0].value
    press(page, "start_runs")
    (owner,) = {path.name for path in (places.root() / "uploads").glob("*")}
    (run,) = run_panel.manager().of(owner, "language_model")
    until(lambda: run_panel.manager().run(owner, run.id).state == "finished")
    for name in ("model.keras", "results.json"):
        shutil.copy(folder("lstm") / name, run.folder / name)
    line = {"state": "finished", "step": 5, "steps": 5, "loss": 1.2, "bits": 1.8}
    (run.folder / "progress.jsonl").write_text(json.dumps(line) + "\n")
    page = pages.open_lab("language_model", corpus="source", view="compare")
    table = page.dataframe[-1].value
    rows = dict(zip(table["Model"], table["Bits per character"], strict=True))
    assert float(rows["the source itself"]) == pytest.approx(best, abs=0.01)
    # Trigrams know all that there is to know, and cannot be better.
    assert 0 < float(rows["n-grams, n = 3"]) - best < 0.05
    figures = [str(figure.proto) for figure in page.get("vega_lite_chart")]
    assert sum("the source itself" in figure for figure in figures) == 2  # and curves
    # The text is not taken for one of the user's own.
    own = pages.open_lab("language_model", corpus="own", view="next")
    assert "Choose a text file" in " ".join(m.value for m in own.markdown)


def test_the_generated_text_in_french():
    page = pages.open_lab("language_model", corpus="source", view="next", lang="fr")
    assert "Un texte engendré" in " ".join(m.value for m in page.markdown)
