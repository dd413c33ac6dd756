"""Hostile `.keras` files: each ends in a ValueError that names the file and the key."""

import json
import os
import re
import zipfile

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.core import archive, files

pytestmark = pytest.mark.once("files are checked before a backend is asked")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "sound.keras"
    lstm = kerasseq.layers.PeepholeLSTM(2)
    keras.Sequential([keras.Input((5, 3)), lstm, keras.layers.Dense(1)]).save(path)
    return path


def changed(saved, path, change, compression=zipfile.ZIP_STORED):
    """Copy a model file, its members as `change` makes them."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w", compression) as new:
        members = {name: old.read(name) for name in old.namelist()}
        for name, content in (change(members) or members).items():
            new.writestr(name, content)
    return path


def configured(saved, path, keys, value):
    """Copy a model file with one value of its configuration replaced."""

    def change(members):
        config = json.loads(members["config.json"])
        *keys_before, last = keys
        inner = config
        for key in keys_before:
            inner = inner[key]
        inner[last] = value
        members["config.json"] = json.dumps(config)

    return changed(saved, path, change)


def refused(path, *words):
    with pytest.raises(ValueError, match=re.escape(str(path))) as error:
        kerasseq.load_model(path)
    for word in words:
        assert word in str(error.value)


def test_a_sound_file_loads_as_it_was_or_compressed(saved, tmp_path):
    packed = changed(saved, tmp_path / "a.keras", lambda m: None, zipfile.ZIP_DEFLATED)
    x = np.ones((2, 5, 3))
    first, second = (kerasseq.load_model(path)(x) for path in (saved, packed))
    assert np.array_equal(*map(keras.ops.convert_to_numpy, (first, second)))


@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "assets/x"])
def test_what_unpacks_to_far_more_than_it_is(saved, tmp_path, monkeypatch, name):
    monkeypatch.setattr(archive, "LARGEST_TEXT", 2**16)

    def change(members):
        members[name] = b" " * 2**23

    path = changed(saved, tmp_path / "bomb.keras", change, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**16
    refused(path, name, "8,388,608 bytes")


def test_sizes_that_lie_in_the_directory(saved, tmp_path, monkeypatch):
    """The reading is bounded, whatever the directory of the file says."""
    monkeypatch.setattr(archive, "LARGEST_TEXT", 2**16)

    def change(members):
        members["config.json"] = b" " * 2**17

    path = changed(saved, tmp_path / "bomb.keras", change, zipfile.ZIP_DEFLATED)
    size = (2**17).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (100).to_bytes(4, "little")))
    refused(path, "config.json")


@pytest.mark.parametrize("depth", [310, 900, 100_000])
@pytest.mark.parametrize("of", ["[]", "{}"])
def test_deep_nesting(saved, tmp_path, depth, of):
    left, right = ("[", "]") if of == "[]" else ('{"a":', "}")

    def change(members):
        text = '{"config": ' + left * depth + "1" + right * depth + "}"
        members["config.json"] = text

    refused(changed(saved, tmp_path / "deep.keras", change), "config.json", "nested")


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("config", "layers", 1, "config", "units"), 10**9),
        (("config", "layers", 2, "config", "units"), 10**19),
        (("config", "layers", 1, "config", "units"), -1),
        (("config", "layers", 1, "config", "units"), "3"),
        (("config", "layers", 1, "config", "num_layers"), 10**9),
        (("config", "layers", 1, "config", "name"), 7),
        (("config", "layers", 1, "class_name"), 7),
        (("config", "layers", 2, "module"), 7.5),
        (("config", "layers", 2, "registered_name"), []),
        (("config", "layers", 2, "class_name"), None),
        (("config", "layers", 1, "config", "bias_initializer"), 3),
        (("config", "layers", 1, "config", "activation"), [1]),
        (("config", "layers", 1, "build_config"), 3),
        (("compile_config",), True),
    ],
)
def test_wrong_values_are_named_with_their_key(saved, tmp_path, keys, value):
    path = configured(saved, tmp_path / "wrong.keras", keys, value)
    refused(path, keys[-1], str(value))


def test_more_memory_than_there_is(saved, tmp_path):
    """Sizes that pass the check each, but not the allocation of their product."""
    keys = ("config", "layers", 1, "config", "units")
    path = configured(saved, tmp_path / "large.keras", keys, 2**20)
    refused(path, "config.layers[1].config.units = 1048576", "memory")


@pytest.mark.parametrize("content", ["[]", "7", "null", '"x"', "{", ""])
def test_a_configuration_that_is_no_table(saved, tmp_path, content):
    def change(members):
        members["config.json"] = content

    refused(changed(saved, tmp_path / "none.keras", change), "config.json")


@pytest.mark.parametrize("name", ["config.json", "model.weights.h5"])
def test_a_member_that_is_missing(saved, tmp_path, name):
    def change(members):
        del members[name]

    refused(changed(saved, tmp_path / "part.keras", change), name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are of Unix")
def test_a_pipe_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe.keras"
    os.mkfifo(pipe)
    refused(pipe, "pipe")
    with pytest.raises(ValueError, match="pipe"):
        files.read_json(pipe)


def test_a_file_without_end(tmp_path, monkeypatch):
    """Sparse: it takes no room on the disk."""
    monkeypatch.setattr(files, "LARGEST", 2**20)
    with open(tmp_path / "sparse.json", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"sparse.json is larger than 1,048,576 bytes"):
        files.read_json(tmp_path / "sparse.json")
