"""Tokenizers of Whisper: Hugging Face's files and KerasHub's preset, both ways."""

import json

import pytest
import transformers

from kerasseq.models.whisper import special_tokens as tokens
from kerasseq.pretrained import whisper_tokenizers as files
from kerasseq.text import BytePairTokenizer, CharacterTokenizer, load_tokenizer
from tests.models.whisper.tokenizers import TEXTS, write_files

pytestmark = pytest.mark.once("text: the same on all backends")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


def test_languages_are_those_of_hugging_face():
    theirs = transformers.models.whisper.tokenization_whisper
    assert theirs.LANGUAGES == tokens.LANGUAGES
    assert list(theirs.LANGUAGES) == list(tokens.LANGUAGES)
    assert tokens.ALIASES.items() <= theirs.TO_LANGUAGE_CODE.items()


def test_ids_and_texts_are_those_of_hugging_face(folder, tokenizer, tmp_path):
    files.write(tmp_path, tokenizer, "huggingface")
    assert load_tokenizer(tmp_path) == tokenizer  # of tokenizer.json
    for place in (folder, tmp_path):
        peer = transformers.WhisperTokenizer.from_pretrained(place)
        for text in TEXTS:
            ids = tokenizer.encode(text).tolist()
            assert peer(text, add_special_tokens=False).input_ids == ids
            if place == tmp_path:  # the other calls its own marks no special tokens
                plain = peer.decode(ids, skip_special_tokens=True)
                written = tokenizer.decode(ids, skip_special=True)
                # The peer removes from a text what looks like a time, too.
                assert written.replace("<|30.02|>", "") == plain
    (tmp_path / "tokenizer.json").unlink()
    assert load_tokenizer(tmp_path) == tokenizer


def test_a_published_tokenizer_json(tokenizer, tmp_path):
    """In published files times are not special, and are found in a second pass."""
    files.write(tmp_path, tokenizer, "huggingface")
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    for token in content["added_tokens"]:
        assert token["special"] != (token["content"] in tokens.timestamp_tokens())
        token["normalized"] = not token["special"]
    path.write_text(json.dumps(content))
    assert load_tokenizer(tmp_path) == tokenizer
    content["added_tokens"][3]["lstrip"] = True
    path.write_text(json.dumps(content))
    theirs = load_tokenizer(tmp_path)
    assert not isinstance(theirs, BytePairTokenizer)
    assert theirs.vocabulary == tokenizer.vocabulary


@pytest.mark.parametrize("left_out", [[], [*tokens.timestamp_tokens()]])
def test_a_preset_of_keras_hub(tokenizer, left_out, tmp_path):
    """It lacks ids of times and of other marks, which have their places."""
    keras_hub = pytest.importorskip("keras_hub")
    files.write(tmp_path, tokenizer, "keras_hub")
    assert files.is_preset(tmp_path) and files.is_multilingual(tmp_path)
    assert files.read_preset(tmp_path) == tokenizer
    config = json.loads((tmp_path / "tokenizer.json").read_text())["config"]
    assets = tmp_path / files.ASSETS
    others = {tokens.START, tokens.END, tokens.NO_TIMESTAMPS}
    others |= {tokens.token_of(task) for task in tokens.TASKS}
    special = config["special_tokens"]
    if left_out:
        special = {t: i for t, i in special.items() if t in others}
    peer = keras_hub.tokenizers.WhisperTokenizer(
        str(assets / "vocabulary.json"),
        str(assets / "merges.txt"),
        special_tokens=special,
        language_tokens=config["language_tokens"],
    )
    text = " for the peer to read"
    assert list(peer(text)) == tokenizer.encode(text).tolist()
    peer.save_to_preset(tmp_path / "theirs")
    assert files.read_preset(tmp_path / "theirs") == tokenizer


def test_times_that_a_folder_lacks(tokenizer):
    size = tokenizer.vocabulary_size
    shorter = BytePairTokenizer.from_vocabulary(
        tokenizer.vocabulary[:-1501],
        [(merge.left, merge.right) for merge in tokenizer.trace()],
        special_tokens=tokenizer.special_tokens[:-1501],
    )
    assert files.with_times(shorter, size) == tokenizer
    assert files.with_times(shorter, size + 1) is shorter
    letters = CharacterTokenizer().fit("ab")
    assert files.with_times(letters, 2 + 1501) is letters


def test_other_tokenizers_are_not_written_for_others(tokenizer, tmp_path):
    plain = BytePairTokenizer(300).fit("a b a b")
    for source in ("huggingface", "keras_hub"):
        files.write(tmp_path, plain, source)
        files.write(tmp_path, None, source)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["[]", '{"<|en|>": "x"}', '{"<|en|>": 3}'])
def test_damaged_added_tokens(folder, damage, tmp_path):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "added_tokens.json").write_text(damage)
    with pytest.raises(ValueError, match="vocab.json: "):
        load_tokenizer(tmp_path)
