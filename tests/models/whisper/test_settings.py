"""Settings of the decoding of Whisper, and their file."""

import re

import keras
import pytest
import transformers

from kerasseq.models.whisper.settings import WhisperGeneration
from kerasseq.models.whisper.settings_files import generation_fields, read_generation
from kerasseq.models.whisper.special_tokens import whisper_special_tokens
from kerasseq.text import BytePairTokenizer, CharacterTokenizer

pytestmark = pytest.mark.once("no tensors")
FILE = {
    "decoder_start_token_id": 41,
    "eos_token_id": 40,
    "pad_token_id": 39,
    "bos_token_id": 40,
    "lang_to_id": {"<|en|>": 42, "<|de|>": 43, "<|yue|>": 44},
    "task_to_id": {"transcribe": 46, "translate": 45},
    "no_timestamps_token_id": 50,
    "prev_sot_token_id": 48,
    "suppress_tokens": [3, 7],
    "begin_suppress_tokens": [5, 40],
    "max_initial_timestamp_index": 23,
    "alignment_heads": [[1, 0], [1, 2]],
    "is_multilingual": True,
    "max_length": 31,
}


def test_a_file_of_hugging_face_both_ways(tmp_path):
    settings = read_generation(
        {**FILE, "temperature": 0.7, "forced_decoder_ids": [[1]]}
    )
    assert settings.padding == 39 and settings.previous == 48
    assert (settings.no_speech, settings.first_timestamp) == (49, 51)
    assert settings.prompt("Cantonese", "translate") == [41, 44, 45, 50]
    assert settings.prompt("yue", timestamps=True) == [41, 44, 46]
    fields = generation_fields(settings)
    assert read_generation(fields) == settings
    transformers.GenerationConfig(**fields).save_pretrained(tmp_path)
    theirs = transformers.GenerationConfig.from_pretrained(tmp_path).to_dict()
    assert FILE.items() <= theirs.items()
    assert read_generation(theirs) == settings
    config = keras.saving.serialize_keras_object(settings)
    assert keras.saving.deserialize_keras_object(config) == settings


def test_an_english_model_has_no_languages():
    table = {**FILE, "is_multilingual": False}
    settings = read_generation(table)
    assert settings.prompt() == [41, 50]
    assert settings.prompt(timestamps=True) == [41]
    assert generation_fields(settings)["is_multilingual"] is False


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = BytePairTokenizer(263, special_tokens=["<pad>"]).fit("a b")
    return WhisperGeneration.extend_tokenizer(tokenizer, ["en", "de"])


def test_ids_of_a_tokenizer(tokenizer):
    settings = WhisperGeneration.from_tokenizer(tokenizer, previous=11, max_length=7)
    ids = tokenizer.encode("<|startoftranscript|><|de|><|translate|><|notimestamps|>")
    assert settings.prompt("de", "translate") == ids.tolist()
    first, none = tokenizer.encode("<|0.00|><|nospeech|>").tolist()
    assert (settings.first_timestamp, settings.no_speech) == (first, none)
    assert settings.previous == 11
    one = WhisperGeneration.from_tokenizer(tokenizer, multilingual=False)
    assert one.prompt() == [ids[0], ids[-1]]
    # A file without ids, as older ones, or with some of them.
    assert read_generation({}, tokenizer=tokenizer).languages == settings.languages
    table = {"eos_token_id": 3, "is_multilingual": False}
    assert read_generation(table, tokenizer=tokenizer).end == 3
    letters = CharacterTokenizer().fit("ab")
    with pytest.raises(TypeError, match="must be a BytePairTokenizer"):
        WhisperGeneration.extend_tokenizer(letters)
    first = BytePairTokenizer(1800, special_tokens=whisper_special_tokens(["en"]))
    with pytest.raises(ValueError, match="no tokens after those of times.*extend_tok"):
        WhisperGeneration.from_tokenizer(first.fit("a b"))
    with pytest.raises(ValueError, match=r"must have the token <\|startof.*start= and"):
        WhisperGeneration.from_tokenizer(letters)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"language": "germn"}, 'not one of en, de, yue, nor .*mean "german"'),
        ({"language": "fr"}, "language='fr' is not one of en, de, yue"),
        ({"language": 42}, "must be a code such as .*received 42"),
        ({"task": "translat"}, 'task="translat" is not one of .*mean "translate"'),
        ({"timestamps": "yes"}, "timestamps must be True or False"),
    ],
)
def test_wrong_words(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        read_generation(FILE).prompt(**call)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"language": "en"}, "language must be None for a model of one language"),
        ({"task": "translate"}, 'task must be "transcribe", as the model has no id'),
        ({"timestamps": True}, "timestamps must be False, as the model has no ids of"),
    ],
)
def test_a_model_with_its_own_tokenizer(call, message):
    settings = WhisperGeneration(3, 4)
    assert settings.prompt() == [3] and settings.padding == 4
    with pytest.raises(ValueError, match=message):
        settings.prompt(**call)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eos_token_id": "<end>"}, "eos_token_id: expected a whole number"),
        ({"eos_token_id": None}, "expected the key 'eos_token_id'"),
        ({"eos_token_id": -1}, "end must be at least 0"),
        ({"lang_to_id": {"<|en|>": True}}, r"lang_to_id\.<\|en\|>: expected a whole"),
        ({"lang_to_id": {"../en": 1}}, r"tokens such as <\|en\|>, received '../en'"),
        ({"task_to_id": {"sing": 1}}, 'tasks="sing" is not one of'),
        ({"suppress_tokens": {"1": 2}}, "suppress_tokens: expected a list"),
        ({"alignment_heads": [[1]]}, r"alignment_heads\[0\]: expected a list of 2"),
        ({"is_multilingual": "no"}, "is_multilingual: expected"),
        ({"max_length": 0}, "max_length must be at least 1"),
        ({"no_timestamps_token_id": 0}, "no_timestamps must be at least 1"),
    ],
)
def test_damaged_files(change, message):
    with pytest.raises(ValueError, match=f"there.json is damaged: .*{message}"):
        read_generation({**FILE, **change}, "there.json")


def test_what_hugging_face_cannot_have():
    settings = WhisperGeneration(1, 2, no_timestamps=9, first_timestamp=12)
    message = "first_timestamp must be no_timestamps +1, 10, .* received 12"
    with pytest.raises(ValueError, match=re.sub(r"\+", r"\+", message)):
        generation_fields(settings)


def test_ids_and_heads_outside_a_model():
    settings = read_generation(FILE)
    settings.check_model(52, 2, 3)
    with pytest.raises(ValueError, match="no_timestamps must have ids below 50, .*50"):
        settings.check_model(50, 2, 3)
    with pytest.raises(ValueError, match="in 2 layers of 2 heads.* layer 1, head 2"):
        settings.check_model(52, 2, 2)
