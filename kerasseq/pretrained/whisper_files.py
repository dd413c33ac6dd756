"""Files of a Whisper beside config.json: its features, and the settings of decoding."""

import pathlib
from typing import Any

from kerasseq.models.whisper.settings import WhisperGeneration
from kerasseq.models.whisper.settings_files import (
    FILE,
    generation_fields,
    read_generation,
)
from kerasseq.models.whisper.special_tokens import START
from kerasseq.pretrained import folders
from kerasseq.pretrained.family import Arguments
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.tokenizers import with_tokenizer
from kerasseq.pretrained.whisper_tokenizers import is_multilingual

RATE = 16_000  # of both libraries, whose filters end at 8,000 Hz
FEATURES = {"sampling_rate": RATE, "num_fft_bins": 400, "stride": 160}
HUB_FEATURES = "audio_converter.json"
# By the vocabulary of the published models: the start of a transcript. The end is the
# id before it.
STARTS = {51_864: 50_257, 51_865: 50_258, 51_866: 50_258}
NAMES = {  # of the arguments, by format
    "huggingface": {
        "num_mels": "feature_size",
        "sampling_rate": "sampling_rate",
        "num_fft_bins": "n_fft",
        "stride": "hop_length",
        "window": "chunk_length",
    },
    "keras_hub": {
        "num_mels": "num_mels",
        "sampling_rate": "sampling_rate",
        "num_fft_bins": "num_fft_bins",
        "stride": "stride",
        "window": "max_audio_length",
    },
}


def complete(folder: pathlib.Path, source: str, arguments: Arguments) -> Arguments:
    """Returns the arguments of a `Whisper` with those that other files have.

    Args:
        folder: The folder.
        source: "huggingface" or "keras_hub".
        arguments: Those of config.json.

    Raises:
        ValueError: If a file is damaged, contradicts config.json, or asks for features
            that kerasseq does not compute.
    """
    size = arguments["vocabulary_size"]
    own = WhisperGeneration(size - 2, size - 1)  # after the ids of any tokenizer
    arguments = {**arguments, **_features(folder, source, arguments)}
    path, table = _generation_table(folder, source)
    ids = [table.get(name) for name in ("decoder_start_token_id", "eos_token_id")]
    is_own = ids == [own.start, own.end] or (not table and size not in STARTS)
    arguments = with_tokenizer(folder, source, arguments, own_ids=2 * is_own)
    tokenizer = arguments.get("tokenizer")
    if tokenizer is not None and START in tokenizer.special_tokens:
        if table:
            generation = read_generation(table, path, tokenizer)
        else:
            several = source != "keras_hub" or is_multilingual(folder)
            generation = WhisperGeneration.from_tokenizer(
                tokenizer, multilingual=several
            )
    elif table:
        generation = read_generation(table, path)
    else:
        start = STARTS.get(size, own.start)
        generation = WhisperGeneration(start, start - 1 if size in STARTS else own.end)
    generation = _without_others(generation, size)
    covers = tokenizer is not None and tokenizer.vocabulary_size == size
    return {
        **arguments,
        "generation": None if generation == own and not covers else generation,
    }


def _without_others(generation, size):
    """Settings whose suppressed ids are those of the model.

    A file of a small model often has those of the published ones, which do nothing.
    """
    config = generation.get_config()
    for name in ("suppress_tokens", "begin_suppress_tokens"):
        config[name] = [i for i in config[name] if i < size]
    return WhisperGeneration.from_config(config)


def _generation_table(folder, source):
    """Returns the file with the ids of start and end, and its content, if any."""
    for name in (FILE, folders.CONFIG) if source == "huggingface" else ():
        path = folder / name
        table = folders.read_table(path) if path.exists() else {}
        if table.get("decoder_start_token_id") is not None:
            return path, table
    return None, {}


def _features(folder, source, arguments):
    """Returns the arguments of the features; those of the published models if none."""
    settings = _feature_settings(folder, source)
    if settings is None:
        return {}
    features = {
        name: settings.whole(theirs, arguments[name])
        for name, theirs in NAMES[source].items()
    }
    settings.require(
        **{
            NAMES[source]["num_mels"]: arguments["num_mels"],
            NAMES[source]["sampling_rate"]: RATE,
        },
        dither=0.0,
        padding_value=0.0,
    )
    positions = arguments["window"] * RATE / FEATURES["stride"]  # of config.json
    length = features["window"] * RATE / features["stride"]
    if length != positions:
        settings.refuse(
            NAMES[source]["window"],
            f"that of {positions:g} frames, as config.json has",
        )
    return features


def _feature_settings(folder, source):
    if source == "huggingface":
        path = folder / "preprocessor_config.json"
        return Settings(folders.read_table(path), path) if path.exists() else None
    path = folder / HUB_FEATURES
    if not path.exists():
        return None
    return Settings(folders.read_table(path), path).part("config")


def write_files(folder: pathlib.Path, source: str, arguments: Arguments) -> None:
    """Writes the files of a `Whisper` beside config.json.

    Args:
        folder: The folder.
        source: "huggingface" or "keras_hub".
        arguments: Arguments of the model.

    Raises:
        ValueError: If Hugging Face has no such settings of decoding.
    """
    features = {theirs: arguments[name] for name, theirs in NAMES[source].items()}
    window = NAMES[source]["window"]
    features[window] = int(features[window])
    if source == "keras_hub":
        folders.write_table(folder / HUB_FEATURES, _hub_converter(features))
        return
    samples = features[window] * RATE
    folders.write_table(
        folder / "preprocessor_config.json",
        {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "processor_class": "WhisperProcessor",
            **features,
            "n_samples": samples,
            "nb_max_frames": samples // arguments["stride"],
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": False,
        },
    )
    folders.write_table(folder / FILE, generation_fields(arguments["generation"]))


def _hub_converter(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "module": "keras_hub.layers",
        "class_name": "WhisperAudioConverter",
        "config": {"name": "whisper_audio_converter", **settings},
        "registered_name": "keras_hub>WhisperAudioConverter",
    }
