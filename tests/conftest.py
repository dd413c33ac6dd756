"""Switches off optimizations of JAX's compiler, which take most of the tests' time."""

import os

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
