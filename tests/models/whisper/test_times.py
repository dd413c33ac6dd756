"""Alignment and segments are those of Hugging Face."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.layers import LogMelSpectrogram
from kerasseq.models.whisper import times
from kerasseq.models.whisper.segments import split_at_times
from kerasseq.models.whisper.spectrogram import log_mel_frames
from tests.models.whisper.transcribing import (
    NO_TIMES,
    Peer,
    ids_of,
    random_whisper,
    recordings,
)

pytestmark = pytest.mark.once("NumPy")


@given(st.integers(1, 11), st.integers(1, 17), st.integers(0, 99), st.booleans())
@settings(max_examples=40)
def test_median_and_path(tokens, vectors, seed, ties):
    torch = pytest.importorskip("torch")
    from transformers.models.whisper import generation_whisper as peer

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, tokens, vectors)).astype("float32")
    x = np.round(x) if ties else x
    smooth = times.median_filter(x, 7)
    expected = peer._median_filter(torch.tensor(x[None]), 7)[0].numpy()
    np.testing.assert_array_equal(smooth, expected)
    cost = -x.mean(axis=0).astype("float64")
    for ours, theirs in zip(
        times.warping_path(cost), peer._dynamic_time_warping(cost), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_one_token_takes_all_of_the_sound():
    matrix = times.alignment_matrix(np.full((2, 2, 9), 0.5, "float32"))
    assert matrix.tolist() == np.zeros((2, 9)).tolist()  # nothing to compare
    assert times.token_times(matrix, 0.02).shape == (1, 2)


def test_times_of_tokens(tmp_path):
    """The peer's function, which reads one row less than the published code."""
    model = random_whisper(suppress_tokens=NO_TIMES)
    one, _ = recordings()
    peer = Peer(model, tmp_path / "folder")
    peer.model.set_attn_implementation("eager")  # returns its weights
    found = peer.generate(
        one,
        language="en",
        max_new_tokens=21,
        output_attentions=True,
        return_dict_in_generate=True,
    )
    heads = model.generation.alignment_heads
    prompt = model.generation.prompt("en")
    ends = peer.model._extract_token_timestamps(
        found, heads, num_frames=100, num_input_ids=len(prompt) - 1
    )[0, len(prompt) - 1 :]
    options = {"temperature": 0.0, "max_new_tokens": 21}
    ours = model.transcribe(one, language="en", align=True, **options)
    ids = found["sequences"][0].tolist()[len(prompt) : -1]
    assert ids_of(ours) == ids
    np.testing.assert_allclose(ours.times[:, 1], ends[1 : len(ids) + 1], atol=1e-6)
    assert (ours.times[1:, 0] == ours.times[:-1, 1]).all()
    assert ours.times[0, 0] == 0 and len(np.unique(ours.times[:, 1])) > 3
    assert ours.tokens == [str(i) for i in ids]
    (matrix,) = ours.alignment
    assert matrix.shape == (len(ids), 50)


TOKENS = st.lists(st.integers(0, 29), min_size=1, max_size=14)


@given(TOKENS, st.integers(30, 99))
@settings(max_examples=60)
def test_segments(tokens, frames):
    torch = pytest.importorskip("torch")
    from transformers import WhisperForConditionalGeneration as Model

    tokens = [25, *tokens]  # as the rules have it
    first = 20
    theirs, advance = Model._retrieve_segment(
        seek_sequence=torch.tensor(tokens),
        seek_outputs=[None],
        time_offset=torch.zeros(1, dtype=torch.float64),
        timestamp_begin=first,
        seek_num_frames=torch.tensor([frames]),
        time_precision=1.0,
        time_precision_features=0.5,
        input_stride=2,
        prev_idx=0,
        idx=0,
        return_token_timestamps=False,
        decoder_input_ids=torch.zeros((1, 3)),
    )
    pieces, following = split_at_times(tokens, first, frames // 2)
    assert [piece.tokens for piece in pieces] == [x["tokens"].tolist() for x in theirs]
    expected = [(float(x["start"]), float(x["end"])) for x in theirs]
    assert [(piece.start, piece.end) for piece in pieces] == expected
    ours = frames if following is None else 2 * following
    assert ours == int(advance) or (ours == 2 and int(advance) <= 0)


def test_frames_in_parts_are_those_of_the_whole():
    layer = LogMelSpectrogram(7, 48, 10)
    rng = np.random.default_rng(0)
    for length in (10, 59, 1003):
        x = rng.normal(size=length).astype("float32") * np.linspace(1e-6, 1, length)
        x = x.astype("float32")
        whole = keras.ops.convert_to_numpy(layer(x[None]))[0]
        for part in (1, 13, 500):
            frames = log_mel_frames(layer, x, part)
            np.testing.assert_allclose(frames, whole, atol=2e-6)
