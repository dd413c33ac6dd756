"""`Whisper.transcribe` with sounds and arguments of any kind."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import decoding, models, text
from kerasseq.models.whisper import window_decoding
from kerasseq.models.whisper.special_tokens import whisper_special_tokens
from tests.models.whisper.toys import SMALL, sounds
from tests.models.whisper.transcribing import ids_of, random_whisper, recordings

pytestmark = pytest.mark.once("the rules are tested everywhere")
FIXED = {"temperature": 0.0}


@pytest.fixture(scope="module")
def model():
    return random_whisper()


@pytest.fixture(scope="module")
def own():
    """A model of one language with a tokenizer of its own."""
    model = models.Whisper(text.CharacterTokenizer().fit("abcd"), **SMALL)
    rng = np.random.default_rng(7)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.7, size=weight.shape))
    return model


def test_a_model_of_its_own(own, tmp_path):
    short, long = sounds(0.5, 2.0, rate=800)
    found = own.transcribe([short, long], **FIXED, align=True)
    assert set("".join(part.text for part in found)) <= {*"abcd", "\ufffd"}
    assert [part.language for part in found] == [None, None]
    assert [len(part.segments) for part in found] == [1, 3]  # of 0.75 seconds
    assert [part.end for part in found[1].segments] == pytest.approx([0.75, 1.5, 2])
    assert found[0].segments[0].end == pytest.approx(0.5)
    for part in found:
        assert len(part.tokens) == len(part.times) == len(part.text)
        assert (np.diff(part.times.ravel()) >= 0).all() and part.times.max() <= 2
    kerasseq.datasets.write_wave(tmp_path / "a.wav", short, 800)
    again = own.transcribe(tmp_path / "a.wav", **FIXED)
    row = own.transcribe({"array": short, "sampling_rate": 800}, **FIXED)
    assert again.text == row.text == found[0].text
    assert own.transcribe([], **FIXED) == []
    own.save(tmp_path / "model.keras")
    same = kerasseq.load_model(tmp_path / "model.keras")
    assert same.transcribe(short, **FIXED).text == found[0].text


def test_temperatures(model):
    one, _ = recordings()
    options = {"timestamps": True, "seed": 1, "language": "en"}
    tried = []
    for least, ratio in [(-9.0, 9.0), (0.0, 9.0), (-9.0, 0.1)]:
        found = model.transcribe(
            one,
            **options,
            temperature=(0.0, 0.4, 0.8),
            logprob_threshold=least,
            compression_ratio_threshold=ratio,
            no_speech_threshold=None,
        )
        tried.append(found.segments[0].temperature)
    assert tried == [0.0, 0.8, 0.8]
    options["temperature"] = 0.9
    drawn = [ids_of(model.transcribe(one, **options)) for _ in range(2)]
    other = model.transcribe(one, **{**options, "seed": 2})
    assert drawn[0] == drawn[1] != ids_of(other)


def test_no_speech(model):
    one, _ = recordings()
    options = {**FIXED, "language": "en"}
    kept = model.transcribe(one, **options)
    p = kept.segments[0].no_speech_probability
    assert 0 < p < 0.1
    least = kept.segments[0].log_probability
    for threshold, likely, count in [
        (p * 0.9, least + 0.1, 0),
        (p * 0.9, least - 0.1, 1),
        (p * 1.1, least + 0.1, 1),
        (p * 0.9, None, 0),
    ]:
        found = model.transcribe(
            one, **options, no_speech_threshold=threshold, logprob_threshold=likely
        )
        assert len(found.segments) == count
        assert bool(found.text) == bool(count)


def test_compression(own):
    ids = own.tokenizer.encode("abcd" * 20).tolist()
    ratio = window_decoding.compression_ratio(own, ids)
    assert ratio > 2.4 > 1 > window_decoding.compression_ratio(own, ids[:4])
    assert window_decoding.compression_ratio(own, []) == 0


def test_text_that_precedes():
    special = whisper_special_tokens(["en"])[:9]  # without times
    tokenizer = text.BytePairTokenizer(265, special_tokens=special).fit("a b")
    generation = models.WhisperGeneration.from_tokenizer(tokenizer)
    keras.utils.set_random_seed(1)
    model = models.Whisper(tokenizer, generation=generation, **SMALL)
    (short,) = sounds(0.5, rate=800)
    options = {"language": "english", **FIXED, "max_new_tokens": 3}
    plain = model.transcribe(short, **options)
    assert plain.language == "en"
    after = model.transcribe(short, **options, prompt="names: Ada")
    p = [x.segments[0].log_probability for x in (plain, after)]
    assert abs(p[0] - p[1]) > 1e-4
    long = model.transcribe(
        np.tile(short, 4), **options, condition_on_previous_text=True
    )
    assert len(long.segments) == 3
    with pytest.raises(ValueError, match="timestamps must be False"):
        model.transcribe(short, timestamps=True)


def test_progress_and_an_interruption(model):
    one, long = recordings()
    calls = []
    model.transcribe(
        [one, long], **FIXED, progress=lambda *now: calls.append(now), batch_size=1
    )
    done = [now for now, _ in calls]
    assert done == sorted(done) and len(calls) == 4
    assert calls[-1] == pytest.approx((3.7, 3.7))

    def stop(now, total):
        raise KeyboardInterrupt

    before = model.transcribe(one, **FIXED)
    with pytest.raises(KeyboardInterrupt):
        model.transcribe(long, **FIXED, progress=stop)
    assert ids_of(model.transcribe(one, **FIXED)) == ids_of(before)


def test_samplers_by_name(model):
    one, _ = recordings()
    options = {**FIXED, "language": "en"}
    beam = model.transcribe(one, **options, beam=3)
    for sampler in (decoding.Beam(3), "greedy"):
        found = model.transcribe(one, **options, sampler=sampler)
        assert (ids_of(found) == ids_of(beam)) == (sampler != "greedy")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "germn"}, 'not one of en, de, fr, .*mean "german"'),
        ({"task": "transcrib"}, 'task="transcrib" .*mean "transcribe"'),
        ({"temperature": -0.1}, "temperature must be above 0"),
        ({"temperature": (0.0, 0.0)}, "temperature must be above 0"),
        ({"temperature": ()}, "temperature must be a number, or several"),
        ({"temperature": "hot"}, "temperature must be a number"),
        ({"beam": 0}, "beam must be at least 1"),
        ({"beam": 2, "sampler": "greedy"}, "beam and sampler exclude each other"),
        ({"sampler": "gredy"}, 'mean "greedy"'),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"prompt": 3}, "prompt must be a text, received 3"),
        ({"prompt": "a"}, "prompt needs a model with a tokenizer"),
        ({"no_speech_threshold": float("nan")}, "no_speech_threshold must be a finite"),
        ({"align": "yes"}, "align must be True or False"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_wrong_arguments(model, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        model.transcribe(recordings()[0], **options)


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (np.zeros(0, "float32"), r"x\[0\] must have at least 160 samples.*received 0"),
        (np.full(999, np.nan, "float32"), "finite samples, received nan at 0"),
        (np.zeros((2, 999, 1), "float32"), "must be an array of numbers"),
        (np.zeros(999, "int16"), "Divide by 32768"),
        ("none.wav", "none.wav"),
        ([np.ones(999, "float32"), None], r"x\[1\]"),
    ],
)
def test_wrong_sounds(model, sound, message):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=message):
        model.transcribe(sound)


def test_wrong_models(own):
    waiting = models.Whisper("character", **SMALL)
    (short,) = sounds(0.5, rate=800)
    with pytest.raises(Exception, match="fit"):
        waiting.transcribe(short)
    with pytest.raises(ValueError, match="previous_text needs the id of a text that"):
        own.transcribe(short, condition_on_previous_text=True)
    with pytest.raises(ValueError, match="language must be None for a model of one"):
        own.transcribe(short, language="en")
