"""Which backend Keras gets, in processes where chosen backends seem to be missing."""

import json
import os

import keras
import pytest

from kerasseq.core import backend
from tests.processes import ROOT, run_python

pytestmark = pytest.mark.once("the choice of a backend, made before one is loaded")

SHOW = """
import contextlib, os
import kerasseq
from kerasseq.core import backend
print(os.environ.get("KERAS_BACKEND"))
with contextlib.suppress(ImportError):
    backend.require()
"""
REQUIRE = """
from kerasseq.core import backend
try:
    backend.require()
except ImportError as error:
    print(error)
"""


def choice(only, keras_json=None, home=None, **environment):
    """The KERAS_BACKEND after `import kerasseq`, and the messages when it is needed."""
    environment.setdefault("KERAS_BACKEND", None)
    if keras_json is not None:
        (home / "keras.json").write_text(keras_json)
        environment["KERAS_HOME"] = str(home)
    done = run_python(SHOW, only=only, **environment)
    return done.stdout.strip(), done.stderr


def complaint(only, name=None):
    return run_python(REQUIRE, only=only, KERAS_BACKEND=name).stdout.strip()


@pytest.mark.parametrize(
    "only", [["tensorflow"], ["tensorflow", "jax", "torch"], ["tensorflow", "torch"]]
)
def test_with_tensorflow_keras_keeps_its_default(only):
    assert choice(only) == ("None", "")


@pytest.mark.parametrize(
    ("only", "expected"),
    [(["torch"], "torch"), (["jax"], "jax"), (["torch", "jax"], "jax")],
)
def test_without_tensorflow_an_installed_one_is_picked(only, expected):
    picked, said = choice(only)
    assert picked == expected
    assert len(said.splitlines()) == 1
    assert expected in said
    assert "KERAS_BACKEND" in said


def test_an_empty_name_counts_as_none():
    assert choice(["jax"], KERAS_BACKEND="")[0] == "jax"


def test_what_keras_json_names_is_kept_if_installed(tmp_path):
    named = json.dumps({"backend": "torch"})
    assert choice(["jax", "torch"], named, tmp_path) == ("None", "")


def test_what_keras_json_names_is_replaced_if_missing(tmp_path):
    # Keras itself writes this file when it is first imported, on any backend.
    named = json.dumps({"backend": "tensorflow"})
    picked, said = choice(["torch"], named, tmp_path)
    assert picked == "torch"
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("damaged", ["", "{", "[1]", '{"backend": 3}', "{}"])
def test_a_damaged_keras_json_is_as_good_as_none(tmp_path, damaged):
    assert choice(["tensorflow"], damaged, tmp_path) == ("None", "")
    assert choice(["torch"], damaged, tmp_path)[0] == "torch"


def test_the_folder_of_keras_json_is_found_without_keras_home(tmp_path):
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text('{"backend": "torch"}')
    home = {"KERAS_HOME": None, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    assert choice(["jax", "torch"], **home) == ("None", "")


@pytest.mark.parametrize("wrong", ["tensrflow", "numpy", "jax"])
def test_an_explicit_wrong_choice_is_left_alone_until_keras_is_needed(wrong):
    assert choice(["torch"], KERAS_BACKEND=wrong) == (wrong, "")


def test_unknown_name():
    said = complaint(["torch"], "tensrflow")
    assert '"tensrflow"' in said
    assert 'Did you mean "tensorflow"?' in said


def test_known_but_not_installed():
    assert "pip install jax, or set KERAS_BACKEND=torch" in complaint(["torch"], "jax")


@pytest.mark.parametrize("name", ["numpy", "openvino"])
def test_a_backend_that_cannot_train(name):
    assert "tensorflow, jax, torch" in complaint(["torch"], name)


@pytest.mark.parametrize("name", [None, "torch"])
def test_no_backend_at_all(name):
    said = complaint([], name)
    assert "pip install tensorflow" in said
    assert "CPU" in said
    assert len(said.splitlines()) <= 4


def test_a_right_choice_needs_no_words():
    assert complaint(["torch"], "torch") == ""


def test_what_needs_keras_says_what_is_wrong_and_the_rest_works():
    run_python(
        """
import kerasseq, kerasseq.text, kerasseq.datasets, kerasseq.runs
import kerasseq.exercises, kerasseq.exporting
light = {"text", "datasets", "runs", "exercises", "exporting"}
for name in {*kerasseq.__all__} - light:
    try:
        getattr(kerasseq, name)
    except ImportError as error:
        assert "no backend is installed" in str(error), error
    else:
        raise AssertionError(name)
try:
    from kerasseq.models import LanguageModel
except ImportError as error:
    assert "no backend is installed" in str(error), error
""",
        only=[],
        KERAS_BACKEND=None,
    )


def test_keras_loaded_before_is_never_touched(monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setattr(backend, "installed", lambda: ("another",))
    backend.choose()
    assert "KERAS_BACKEND" not in os.environ
    assert backend.chosen() == keras.backend.backend()


@pytest.mark.everywhere("the backend of this run, alone")
def test_the_backend_of_this_run_is_enough_by_itself(tmp_path):
    done = run_python(
        """
import sys
sys.modules["matplotlib"] = None  # not needed until something is drawn
import kerasseq, numpy as np
layer = kerasseq.layers.PeepholeLSTM(3)
import keras
model = keras.Sequential([keras.Input((7, 5)), layer])
before = model.predict(np.ones((2, 7, 5)), verbose=0)
model.compile("adam", "mse")
model.fit(np.ones((2, 7, 5)), np.ones((2, 3)), verbose=0)
model.save(sys.argv[1])
after = kerasseq.load_model(sys.argv[1]).predict(np.ones((2, 7, 5)), verbose=0)
assert after.shape == before.shape
print(keras.backend.backend())
""",
        tmp_path / "model.keras",
        only=[keras.backend.backend()],
        KERAS_BACKEND=None,
    )
    assert done.stdout.split() == [keras.backend.backend()]


def test_a_test_run_on_a_missing_backend_fails():
    done = run_python(
        "import pytest, sys; sys.exit(pytest.main(['--collect-only', 'tests/core']))",
        check=False,
        cwd=ROOT,
        KERAS_BACKEND="tensrflow",
    )
    assert done.returncode != 0
    assert 'Did you mean "tensorflow"?' in done.stderr
