"""On JAX the tests spend their time in the compiler: let it hurry, also in children."""

import os

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
