"""The lab Speech: the search and the sums that it shows, its network, and own files."""

import runpy
import struct
import sys
import tempfile

import numpy as np
import pytest

from kerasseq import decoding
from labs.code import speech as code
from parts import ctc_by_hand, figures_sound, sounds, work
from parts.errors import Refused
from tests.apps import pages
from tests.processes import ROOT

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]


def distributions(frames, symbols, seed):
    """Random probabilities, `(frames, symbols)`."""
    y = np.exp(2 * np.random.default_rng(seed).normal(size=(frames, symbols)))
    return y / y.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_beam_finds_what_kerasseq_finds(seed):
    y = distributions(13, 5, seed)
    ids, p = code.beam(y, 4)[0]
    found = decoding.ctc_beam(np.log(y)[None], beam=4)
    assert ids == found.ids[0, : found.lengths[0]].tolist()
    assert np.log(p) == pytest.approx(found.log_probabilities[0], abs=1e-9)


def test_all_texts_have_the_probability_one_and_are_those_of_a_wide_beam():
    y = distributions(5, 3, 3)
    texts = ctc_by_hand.texts_of(y)
    assert sum(p for _, p in texts) == pytest.approx(1)
    for (ids, p), (wanted, q) in zip(code.beam(y, 500), texts, strict=True):
        assert ids == wanted and p == pytest.approx(q)


@pytest.mark.parametrize("label", [[0, 1], [0, 0], [1], []])
def test_sums_by_frames_by_paths_and_of_kerasseq(label):
    y = distributions(5, 3, 7)
    total = sum(p for _, p in code.paths_of(y, label))
    assert code.forward(y, label)[-2:, -1].sum() == pytest.approx(total)
    assert ctc_by_hand.ctc_loss(y, label) == pytest.approx(-np.log(total), abs=1e-5)


def test_the_network_has_learned_and_had_not_at_first():
    test, learned = code.messages(40, 5), sounds.learned()
    assert sounds.network(sounds.KEPT[0]).error_rates(test).characters > 0.95
    assert sounds.network(sounds.KEPT[-1]).error_rates(test).characters < 0.1
    assert learned["wrong"][0] == 1 and learned["wrong"][-1] < 0.05
    assert set(sounds.KEPT) <= set(learned["step"].tolist())
    assert learned["step"][-1] == code.STEPS


@pytest.mark.everywhere("stored weights on another backend", cases=1)
def test_a_name_is_written_at_its_times():
    wave = sounds.keyed("ADA", 0.06, 600, 20, 0)
    found = sounds.written(wave, sounds.KEPT[-1], 8)
    assert found["text"] == "ADA" == found["texts"][0][0]
    assert found["texts"][0][1] >= found["log_p"]
    assert (np.diff(found["times"][:, 0]) > 0).all()
    assert found["times"].max() <= len(wave) / code.RATE + 0.04
    np.testing.assert_allclose(found["y"].sum(axis=1), 1, atol=1e-6)


def test_a_tone_is_in_the_band_of_its_pitch():
    tone = np.sin(2 * np.pi * 800 * np.arange(4000) / code.RATE).astype("float32")
    frames, centers = sounds.frames(tone, 16, 128)
    assert frames.shape == (100, 16)
    loudest = frames[10:90].mean(axis=0).argmax()
    assert loudest == np.abs(centers - 800).argmin()
    rows = figures_sound.spectrogram_rows(np.zeros((1000, 3)), centers, 10.0)
    assert len(rows) == 3 * figures_sound.COLUMNS and rows[-1]["end"] == 10


@pytest.mark.parametrize("text", ["", "  ", "R2", "\N{CYRILLIC CAPITAL LETTER A}"])
def test_what_the_network_has_not_learned_is_refused(text):
    with pytest.raises(Refused, match="only_letters"):
        sounds.as_letters(text)
    assert sounds.as_letters(" zoé  anaïs ") == "ZOE ANAIS"


def wav(wave, rate, channels=1):
    """A WAV file of 16 bits, as bytes."""
    data = np.repeat(np.rint(32767 * wave), channels).astype("<i2").tobytes()
    size = 2 * channels
    layout = struct.pack("<IHHIIHH", 16, 1, channels, rate, size * rate, size, 16)
    head = b"WAVEfmt " + layout + b"data" + struct.pack("<I", len(data))
    return b"RIFF" + struct.pack("<I", len(head) + len(data)) + head + data


TONE = np.sin(np.arange(44100) / 10)


def test_files_of_any_rate_are_read_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    wave = sounds.read("a.wav", wav(TONE, 44100, 2))
    assert wave.shape == (code.RATE,) and wave.dtype == "float32"
    assert not list(tmp_path.iterdir())
    for content in (b"ID3 no sound", b"", wav(TONE, 44100)[:900]):
        with pytest.raises(Refused, match="not_wave") as refused:
            sounds.read("own.wav", content)
        words = refused.value.values["message"]
        assert words.startswith("own.wav") and str(tmp_path) not in words
    for seconds in (0.1, 11):
        with pytest.raises(Refused, match="wrong_length"):
            sounds.read("a.wav", wav(np.zeros(round(8000 * seconds)), 8000))
    assert not list(tmp_path.iterdir())


def facts(page):
    """What a page shows in large type, and in boxes."""
    return " ".join(html.proto.body for html in page.get("html"))


def test_the_page_writes_down_what_it_keys():
    page = pages.open_lab("speech", view="text", text="Zoé")
    assert facts(page).count(">ZOE<") == 2
    assert page.table[0].value.iloc[0].tolist()[0] == "ZOE"
    pages.control(page, "step").set_value(sounds.KEPT[0]).run()
    assert ">ZOE<" not in facts(pages.checked(page))
    pages.control(page, "text").set_value("42").run()
    assert "26 letters" in page.error[0].value and page.subheader


@pytest.mark.parametrize("view", ["frames", "text"])
def test_an_own_sound_is_in_no_cache(view, monkeypatch):
    page = pages.open_lab("speech", view=view, source="upload")
    assert any("stays on the computer" in text.value for text in page.markdown)
    keyed = wav(sounds.keyed("ADA", 0.06, 600, 20, 0), code.RATE)
    monkeypatch.setattr(work, "compute", None)
    page.file_uploader[0].upload("own.wav", keyed, "audio/wav").run()
    pages.checked(page)
    assert page.get("audio") and (view == "frames" or ">ADA<" in facts(page))
    page.file_uploader[0].upload("own.wav", b"RIFF....", "audio/wav").run()
    assert "own.wav" in page.error[0].value and "WAV" in page.error[0].value


def test_a_microphone():
    page = pages.open_lab("speech", source="record", lang="fr")
    assert any("localhost" in text.value for text in page.markdown)
    assert page.get("audio_input") and not page.get("audio")


def test_paths_of_a_label():
    page = pages.open_lab(
        "speech", view="paths", table="0.4 0 0.6\n0.4 0 0.6", label="A"
    )
    assert ">0.64000<" in facts(page) and ">3 / 9<" in facts(page)
    assert any("most probable text is A:" in text.value for text in page.markdown)
    assert page.table[0].value["path"].tolist() == ["A∅", "∅A", "AA"]
    pages.control(page, "label").set_value("AA").run()
    assert "No path" in " ".join(text.value for text in pages.checked(page).markdown)
    assert facts(page).count(">∞<") == 2
    pages.control(page, "label").set_value("AXB").run()
    assert "AXB" in page.error[0].value


@pytest.mark.parametrize(
    "table", ["", "a b c", "1 2", "0 0 0", "-1 1 1", "1 1 1\n" * 6]
)
def test_what_is_no_table(table):
    with pytest.raises(Refused, match="no_table"):
        ctc_by_hand.table_of(table)
    np.testing.assert_allclose(
        ctc_by_hand.table_of("0,5 0,25 0,25"), [[0.5, 0.25, 0.25]]
    )


def test_the_program_that_trains_the_network(tmp_path, monkeypatch, capsys):
    kept = sounds.network(sounds.KEPT[-1]).get_weights()
    for name, value in (("STEPS", 3), ("EVERY", 1), ("BATCH", 1)):
        monkeypatch.setattr(code, name, value)
    monkeypatch.setattr(sounds, "KEPT", (3,))
    file = tmp_path / "speech.npz"
    monkeypatch.setattr(sys, "argv", ["prepare_speech.py", str(file)])
    runpy.run_path(str(ROOT / "apps" / "prepare_speech.py"), run_name="__main__")
    assert "3 steps: loss" in capsys.readouterr().out
    with np.load(file) as made:
        shapes = [made[f"3_{n}"].shape for n in range(len(made.files) - 3)]
    assert shapes == [weight.shape for weight in kept]
