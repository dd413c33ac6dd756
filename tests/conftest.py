"""On JAX the tests of layers spend their time in the compiler: let it hurry."""

import pytest

from kerasseq.core import backend
from tests.processes import ROOT

COMPILE_BOUND = (
    "tests/attention",
    "tests/decoding",
    "tests/language/test_bert.py",
    "tests/language/test_gpt",
    "tests/kernels",
    "tests/positions",
    "tests/rnn",
    "tests/seq2seq",
    "tests/transformer",
    "tests/vision",
    "tests/test_layers_everywhere.py",
)


@pytest.fixture(autouse=True, scope="module")
def _compile_in_a_hurry(request):
    path = request.path.relative_to(ROOT).as_posix()
    if backend.chosen() != "jax" or not path.startswith(COMPILE_BOUND):
        yield
        return
    import jax  # noqa: TID251

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
