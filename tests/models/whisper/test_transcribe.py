"""`Whisper.transcribe` writes the ids that Hugging Face's `generate` writes."""

import numpy as np
import pytest

from kerasseq import decoding
from kerasseq.models.whisper.window_decoding import Fallback, decode_windows, taken
from tests.models.whisper.transcribing import (
    MARK,
    NO_TIMES,
    Peer,
    ids_of,
    random_whisper,
    recordings,
)

pytestmark = pytest.mark.full("a beam with times obeys the same rules everywhere")
# The beam of the peer adds up probabilities of allowed tokens, and stops, as ours.
BEAM = {
    "num_beams": 5,
    "renormalize_logits": True,
    "length_penalty": 0.0,
    "early_stopping": "never",
}


@pytest.fixture(scope="module")
def model():
    return random_whisper()


@pytest.fixture(scope="module")
def words():
    """The same model, which writes no times among its words."""
    return random_whisper(suppress_tokens=NO_TIMES)


@pytest.fixture(scope="module")
def peer(model, tmp_path_factory):
    return Peer(model, tmp_path_factory.mktemp("peer") / "folder")


def test_words(words, peer):
    one, _ = recordings()
    theirs = {"suppress_tokens": NO_TIMES, "max_new_tokens": 21}
    greedy = words.transcribe(one, temperature=0.0, max_new_tokens=21)
    assert ids_of(greedy) == peer.ids(one, **theirs)
    assert len(set(ids_of(greedy))) > 5 and len(ids_of(greedy)) < 21  # it ends
    assert greedy.text == " ".join(map(str, ids_of(greedy)))
    beam = words.transcribe(
        one, temperature=0.0, language="de", beam=5, max_new_tokens=21
    )
    assert ids_of(beam) == peer.ids(one, **theirs, **BEAM, language="de")
    assert ids_of(beam) != ids_of(greedy)


def test_the_language(words, peer):
    one, _ = recordings()
    found = words.transcribe(one, temperature=0.0, max_new_tokens=2)
    x = peer.features(one, sampling_rate=16_000, return_tensors="pt")
    (token,) = peer.model.detect_language(x.input_features).tolist()
    assert words.generation.languages[found.language] == token
    assert sum(found.language_probabilities.values()) == pytest.approx(1)
    assert max(found.language_probabilities.values()) < 0.999
    given = words.transcribe(one, temperature=0.0, language="French", max_new_tokens=2)
    assert (given.language, given.language_probabilities) == ("fr", None)


@pytest.mark.everywhere("decoding with rules on each backend", cases=1)
@pytest.mark.parametrize("beam", [5, None])
def test_times(model, peer, beam):
    one, _ = recordings()
    ours = model.transcribe(
        one, temperature=0.0, timestamps=True, beam=beam, language="en"
    )
    theirs = peer.ids(
        one, return_timestamps=True, language="en", **(BEAM if beam else {})
    )
    assert ids_of(ours) == theirs and len(ours.segments) > 2
    starts = [part.start for part in ours.segments]
    assert starts == sorted(starts) and starts[0] > 0


@pytest.mark.parametrize("conditioned", [False, True])
def test_longer_than_a_window(model, peer, conditioned):
    _, long = recordings()
    ours = model.transcribe(
        long,
        temperature=0.0,
        timestamps=True,
        language="en",
        condition_on_previous_text=conditioned,
    )
    theirs = peer.generate(
        long,
        return_timestamps=True,
        return_segments=True,
        temperature=0.0,
        language="en",
        condition_on_prev_tokens=conditioned,
    )
    assert ids_of(ours) == theirs["sequences"][0].tolist()
    parts = theirs["segments"][0]
    expected = [(float(part["start"]), float(part["end"])) for part in parts]
    found = [(part.start, part.end) for part in ours.segments]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[-1][1] > 2.4


def test_several_are_as_each_alone(model):
    one, long = recordings()
    options = {"timestamps": True, "seed": 3, "align": True}
    options |= {"temperature": (0.0, 0.9), "logprob_threshold": -2.2}
    several = model.transcribe([one, long[:7919], long], **options)
    alone = [model.transcribe(x, **options) for x in (one, long[:7919], long)]
    assert len({part.temperature for x in several for part in x.segments}) == 2
    for first, second in zip(several, alone, strict=True):
        assert ids_of(first) == ids_of(second)
        assert first.language == second.language
        np.testing.assert_allclose(first.times, second.times, atol=1e-6)
    assert MARK not in ids_of(several[2])


@pytest.mark.once("seeds by row: NumPy")
def test_each_window_has_draws_of_its_own(model):
    size = model.preprocessor.frames_of_window, model.encoder.log_mel.num_mels
    frames = np.random.default_rng(0).normal(size=(2, *size)).astype("float32")
    memory, prompt = model.memory_of(frames), model.generation.prompt("en")
    fallback = Fallback((0.9,), decoding.Greedy(), None, None, None)
    options = {"timestamps": False, "max_new_tokens": 7}

    def written(rows, seeds):
        several = taken(memory, rows), [prompt] * len(rows), fallback
        return [w.ids for w in decode_windows(model, *several, **options, seeds=seeds)]

    both = written([0, 1], [3, 5])
    assert both == [*written([0], [3]), *written([1], [5])]
    assert both[1] != written([1], [3])[0]
