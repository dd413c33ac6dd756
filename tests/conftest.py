"""Less work for JAX's compiler, and the site of the documentation, built once."""

import os

import pytest

# The optimizations of the compiler take most of the tests' time.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site of the documentation."""
    from tests.docs.site import build

    folder = tmp_path_factory.mktemp("site")
    build(str(folder))
    return folder
