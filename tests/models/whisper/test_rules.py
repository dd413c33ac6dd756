"""The rules of Whisper are those of Hugging Face's processors of logits."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.decoding import Beam, RandomSampler, generate
from kerasseq.models.whisper import rules
from kerasseq.models.whisper.ruled_step import RuledStep, ruled_state
from kerasseq.models.whisper.settings import WhisperGeneration

pytestmark = pytest.mark.once("the same operations as the rules of times")
V, END, MARK, FIRST = 23, 11, 14, 15
INITIAL = 5
TIMES = rules.TimestampRules(END, MARK, FIRST, V - 1, INITIAL)
PROMPT = [12, 13, 12]


def history_of(written):
    """The history after the prompt and what is written, of one row."""
    history = rules.start_history(keras.ops.array([len(PROMPT)]))
    for token in [*PROMPT, *written]:
        history = rules.extend_history(history, keras.ops.array([token]), FIRST)
    return history


def theirs(logits, written, *processors):
    torch = pytest.importorskip("torch")

    ids = torch.tensor([[*PROMPT, *written]])
    scores = torch.tensor(logits)
    for processor in processors:
        scores = processor(ids, scores)
    return scores.numpy()


def their_times():
    pytest.importorskip("torch")  # of the package transformers
    from transformers import GenerationConfig
    from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

    config = GenerationConfig(
        eos_token_id=END,
        no_timestamps_token_id=MARK,
        max_initial_timestamp_index=INITIAL,
    )
    return WhisperTimeStampLogitsProcessor(config, begin_index=len(PROMPT))


@pytest.mark.everywhere("tensors of each backend")
@settings(max_examples=40)
@given(
    written=st.lists(st.integers(0, V - 1), max_size=6),
    times=st.floats(-3, 3),
    seed=st.integers(0, 99),
)
def test_rules_of_times(written, times, seed):
    logits = np.random.default_rng(seed).normal(size=(1, V)).astype("float32")
    logits[:, FIRST:] += times
    expected = theirs(logits, written, their_times())
    found = TIMES(keras.ops.array(logits), history_of(written))
    found = keras.ops.convert_to_numpy(found)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_array_equal(found, expected)


def test_suppressed_tokens_and_no_speech():
    from transformers.generation import logits_process as peers

    logits = np.random.default_rng(0).normal(size=(1, V)).astype("float32")
    expected = theirs(logits, [], peers.SuppressTokensLogitsProcessor([2, 5]))
    found = rules.suppress(keras.ops.array(logits), [2, 5])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), expected)
    detector = peers.WhisperNoSpeechDetection(no_speech_token=9, begin_index=1)
    detector.begin_index = len(PROMPT)
    theirs(logits, [], detector)
    found = rules.no_speech_probability(keras.ops.array(logits), 9)
    found = keras.ops.convert_to_numpy(found)
    np.testing.assert_allclose(found, detector.no_speech_prob.numpy(), rtol=1e-6)


class Letters(keras.layers.Layer):
    """A decoder whose logits depend on the last token."""

    def __init__(self):
        super().__init__()
        table = np.random.default_rng(1).normal(size=(V, V)).astype("float32")
        self.table = 3 * table
        self.built = True

    def decode_step(self, state, token):
        logits = keras.ops.take(keras.ops.array(self.table), token, axis=0)
        return logits, {"sum": state["sum"] + token}


def expected_step(table, written):
    """The logits after what is written, by the processors of the peer."""
    from transformers.generation import logits_process as peers

    last = [*PROMPT, *written][-1]
    first = peers.SuppressTokensAtBeginLogitsProcessor([17], len(PROMPT))
    never = peers.SuppressTokensLogitsProcessor([2, 5])
    return theirs(table[[last]], written, first, never, their_times())[0]


@pytest.mark.full("a model with a beam and these rules runs everywhere")
@pytest.mark.parametrize("sampler", [RandomSampler(1.5), Beam(3, n_best=3)])
def test_samplers_and_beams_obey(sampler):
    model = Letters()
    step = RuledStep(model, [2, 5], [17], TIMES)
    state = ruled_state({"sum": keras.ops.zeros(2, "int32")}, 2, len(PROMPT))
    options = {"max_new_tokens": 7, "stop": END, "fill": END}
    prompts = [PROMPT, PROMPT]
    if isinstance(sampler, Beam):
        found = sampler.search(step, state, prompts, **options)
        rows = found.ids.reshape(-1, 7)
        lengths, scores = found.lengths.ravel(), found.scores.ravel()
    else:
        made = generate(step, state, prompts, sampler=sampler, seed=1, **options)
        rows, lengths = made.ids, made.lengths
        scores = made.log_probabilities.sum(axis=1)
    assert len({tuple(row) for row in rows.tolist()}) >= 2
    for row, length, score in zip(rows, lengths, scores, strict=True):
        total = 0.0
        for n in range(length):
            logits = expected_step(model.table, row[:n].tolist()).astype("float64")
            assert np.isfinite(logits[row[n]])
            total += logits[row[n]] - np.log(np.exp(logits).sum())
        np.testing.assert_allclose(score, total, rtol=1e-4)


def test_probabilities_of_languages():
    z = np.array([[0.0, 800.0, 801.0], [5.0, -1.0, -1.0]])
    p = rules.language_probabilities(z, [1, 2])
    np.testing.assert_allclose(p, [[0.26894, 0.73106], [0.5, 0.5]], atol=1e-5)


def test_times_beyond_the_window_are_forbidden():
    short = rules.TimestampRules(END, MARK, FIRST, V - 3)
    logits = keras.ops.zeros((1, V))
    z = keras.ops.convert_to_numpy(short(logits, history_of([])))[0]
    assert np.flatnonzero(np.isfinite(z)).tolist() == list(range(FIRST, V - 2))
    assert WhisperGeneration(1, END, no_timestamps=MARK).first_timestamp == FIRST
