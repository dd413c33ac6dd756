import keras
import numpy as np
import pytest

import kerasseq
from tests.processes import run_python

pytestmark = pytest.mark.once("files and imports: layer checks load on each backend")

HEAVY = {
    *("keras", "tensorflow", "jax", "torch", "h5py"),
    *("matplotlib", "scipy", "sklearn", "pandas", "statsmodels"),
    *("rich", "sacrebleu", "num2words", "babel"),
}
LOAD = """
import sys, numpy as np
def answer(load):
    model = load(sys.argv[1])
    np.save(sys.argv[2], keras.ops.convert_to_numpy(model(np.ones((2, 5, 3)))))
"""
# Keras before kerasseq registers every public class.
REGISTERED = """
registered = set(keras.saving.get_custom_objects().values())
answer(keras.saving.load_model)
import kerasseq.layers, kerasseq.models
for module in (kerasseq.layers, kerasseq.models):
    for name in module.__all__:
        public = getattr(module, name)
        is_saved = isinstance(public, type) and not issubclass(public, tuple)
        is_saved = is_saved and name != "Chat"  # a conversation is not
        assert not is_saved or public in registered, name
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small model in a file, and what it answers."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5, 3)), kerasseq.layers.PeepholeLSTM(2)])
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path, keras.ops.convert_to_numpy(model(np.ones((2, 5, 3))))


@pytest.mark.parametrize(
    "code",
    [
        f"import keras, kerasseq\n{REGISTERED}",
        "import kerasseq.models, keras; answer(keras.saving.load_model)",
        pytest.param(
            "import kerasseq, keras; answer(kerasseq.load_model)",
            marks=pytest.mark.full("kerasseq is first above, too", cheap=False),
        ),
    ],
)
def test_every_import_order_loads_what_was_saved(saved, tmp_path, code):
    path, expected = saved
    run_python(f"{LOAD}\n{code}", path, tmp_path / "answer.npy")
    np.testing.assert_allclose(np.load(tmp_path / "answer.npy"), expected, atol=1e-6)


@pytest.mark.parametrize(
    "code",
    [
        "import kerasseq; dir(kerasseq); kerasseq.__version__",
        "import kerasseq; kerasseq.text.CharacterTokenizer; kerasseq.datasets",
        "from kerasseq import datasets, text",
        "from kerasseq.published.counting import count; count('gpt3')",
    ],
)
def test_what_needs_no_keras_loads_nothing_heavy(code):
    done = run_python(f"{code}\nimport sys\nprint(*sys.modules)")
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint(HEAVY), loaded.intersection(HEAVY)


def test_namespaces_are_listed_and_an_unknown_one_is_an_error():
    assert set(kerasseq.__all__) <= set(dir(kerasseq))
    assert all(getattr(kerasseq, name) for name in kerasseq.__all__)
    with pytest.raises(AttributeError, match="'layer'"):
        kerasseq.layer  # noqa: B018


def test_loads_in_this_process(saved):
    path, expected = saved
    for given in (path, str(path)):
        actual = kerasseq.load_model(given)(np.ones((2, 5, 3)))
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(actual), expected, atol=1e-6
        )


def test_safe_mode_stays_on(saved):
    with pytest.raises(ValueError, match="safe_mode=False"):
        kerasseq.load_model(saved[0], safe_mode=False)


def test_a_lambda_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x + 1)])
    model.save(tmp_path / "lambda.keras")
    with pytest.raises(ValueError, match="holds Python code"):
        kerasseq.load_model(tmp_path / "lambda.keras")


@pytest.mark.parametrize("name", ["old.h5", "old.hdf5"])
def test_hdf5_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(ValueError, match="HDF5"):
        kerasseq.load_model(tmp_path / name)


def test_missing_file_folder_and_wrong_ending(saved, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.keras"):
        kerasseq.load_model(tmp_path / "nothing.keras")
    with pytest.raises(IsADirectoryError, match="Did you mean .*model.keras"):
        kerasseq.load_model(saved[0].parent)
    (tmp_path / "model.txt").write_text("hello")
    with pytest.raises(ValueError, match="not a .keras file"):
        kerasseq.load_model(tmp_path / "model.txt")


def test_damage_is_found_before_anything_is_built(saved, tmp_path):
    whole, path = saved[0].read_bytes(), tmp_path / "model.keras"
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
    for damaged in (b"", b"no zip file", whole[:middle], flipped):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            kerasseq.load_model(path)
