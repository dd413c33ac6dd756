"""The same numbers as Hugging Face's Whisper, from its folders and in ours."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import models
from kerasseq.models.whisper.settings import WhisperGeneration
from tests.models.whisper.toys import (
    DECODER,
    ENCODER,
    RATE,
    D,
    F,
    M,
    N,
    T,
    V,
    ids,
    sounds,
    whisper,
)

if keras.backend.backend() != "torch":
    pytest.skip("the peer is of PyTorch", allow_module_level=True)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.once("the peer is of PyTorch")

SETTINGS = {
    "start": 30,
    "end": 29,
    "languages": {"en": 31, "de": 32},
    "tasks": {"transcribe": 33, "translate": 34},
    "no_timestamps": 35,
    "suppress_tokens": (3, 5),
    "begin_suppress_tokens": (7, 29),
    "alignment_heads": ((0, 2), (1, 0)),
}


def peer():
    config = transformers.WhisperConfig(
        vocab_size=V,
        num_mel_bins=M,
        d_model=D,
        encoder_layers=ENCODER,
        decoder_layers=DECODER,
        encoder_attention_heads=N,
        decoder_attention_heads=N,
        encoder_ffn_dim=F,
        decoder_ffn_dim=F,
        max_source_positions=50,
        max_target_positions=T,
        decoder_start_token_id=30,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 29),
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight is not model.model.encoder.embed_positions.weight:
                weight += 0.3 * torch.randn(weight.shape)
    return model


def outputs(model, folder, target):
    """Their features, encoder states, logits and attention for the sounds."""
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    audio = sounds(1.0, 0.61)
    x = extractor(audio, sampling_rate=RATE, return_tensors="pt")["input_features"]
    with torch.no_grad():
        said = model(
            input_features=x,
            decoder_input_ids=torch.tensor(target, dtype=torch.long),
            output_attentions=True,
        )
    parts = (x.mT, said.encoder_last_hidden_state, said.logits, *said.cross_attentions)
    return [part.numpy() for part in parts]


def assert_equal(ours, expected, target):
    frames, memory, logits, *attention = expected
    inputs = ours.encode(sounds(1.0, 0.61)) | {"target": target}
    features = ours.encoder.log_mel(inputs["audio"])
    found = ours.encoder.encode(features, training=False)
    weights = ours.cross_attentions(inputs["audio"], target)
    for y, wanted, bound in (
        (features, frames, 1e-4),
        (found, memory, 1e-5),
        (ours(inputs), logits, 1e-4),
        *((a, b, 1e-5) for a, b in zip(weights, attention, strict=True)),
    ):
        np.testing.assert_allclose(ops.convert_to_numpy(y), wanted, atol=bound)


def test_a_folder_of_theirs_and_one_of_ours(tmp_path):
    theirs, target = peer(), ids(2, 7)
    theirs.generation_config.suppress_tokens = [3, 5]
    theirs.save_pretrained(tmp_path / "theirs")
    extractor = transformers.WhisperFeatureExtractor(feature_size=M, chunk_length=1)
    extractor.save_pretrained(tmp_path / "theirs")
    expected = outputs(theirs, tmp_path / "theirs", target)
    ours = models.from_pretrained(tmp_path / "theirs")
    assert_equal(ours, expected, target)
    assert theirs.generation_config.begin_suppress_tokens == [220, 50256]
    assert ours.generation.suppress_tokens == (3, 5)
    assert ours.generation.begin_suppress_tokens == ()  # none of the model's
    assert (ours.generation.start, ours.generation.end) == (30, 29)
    models.save_pretrained(ours, tmp_path / "ours")
    again = transformers.WhisperForConditionalGeneration.from_pretrained(
        tmp_path / "ours", attn_implementation="eager"
    )
    for a, b in zip(outputs(again, tmp_path / "ours", target), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert again.generation_config.suppress_tokens == [3, 5]
    assert again.config.decoder_start_token_id == 30
    assert_equal(models.from_pretrained(tmp_path / "ours"), expected, target)


def test_settings_of_generation_there_and_back(tmp_path):
    model = whisper(generation=WhisperGeneration(**SETTINGS))
    models.save_pretrained(model, tmp_path)
    theirs = transformers.GenerationConfig.from_pretrained(tmp_path)
    assert theirs.lang_to_id == {"<|en|>": 31, "<|de|>": 32}
    assert theirs.alignment_heads == [[0, 2], [1, 0]]
    assert models.from_pretrained(tmp_path).generation == model.generation
    (tmp_path / "generation_config.json").unlink()  # as in older folders
    found = models.from_pretrained(tmp_path).generation
    assert (found.start, found.end, found.languages) == (30, 29, {})


def rewrite(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config", {"activation_function": "relu"}, "activation_function = 'relu'"),
        ("config", {"scale_embedding": True}, "scale_embedding = True"),
        ("config", {"decoder_attention_heads": 2}, "decoder_attention_heads = 2"),
        ("config", {"vocab_size": 38}, r"embed_tokens.weight.*should be \(38"),
        ("config", {"max_source_positions": 51}, "embed_positions"),
        ("preprocessor_config", {"hop_length": 320}, "chunk_length = 1.*100 frames"),
        ("preprocessor_config", {"sampling_rate": 8000}, "sampling_rate = 8000"),
        ("preprocessor_config", {"feature_size": 12}, "feature_size = 12.*builds 11"),
        ("preprocessor_config", {"dither": 0.1}, "dither = 0.1"),
        ("generation_config", {"eos_token_id": "x"}, "generation_config.json is dama"),
        (
            "generation_config",
            {"lang_to_id": {"<|en|>": 99}, "is_multilingual": True},
            "languages must have ids below 37.*99",
        ),
    ],
)
def test_damaged_folders(file, changes, message, tmp_path):
    models.save_pretrained(whisper(), tmp_path)
    rewrite(tmp_path / f"{file}.json", **changes)
    with pytest.raises(ValueError, match=message):
        models.from_pretrained(tmp_path)


def test_models_that_folders_cannot_hold(tmp_path):
    for changes, message in (
        ({"sampling_rate": 8000}, "sampling_rate=8000 instead of 16000"),
        ({"window": 0.5}, "window=0.5 instead of whole seconds"),
        ({"stride": 150}, "stride=150"),
    ):
        with pytest.raises(ValueError, match=message):
            models.save_pretrained(whisper(**changes), tmp_path)
    waiting = models.Whisper("character")
    with pytest.raises(ValueError, match="has not been trained yet"):
        models.save_pretrained(waiting, tmp_path)
    with pytest.raises(ValueError, match="cannot have num_decoder_layers=2"):
        models.save_pretrained(whisper(), tmp_path, format="keras_hub")
