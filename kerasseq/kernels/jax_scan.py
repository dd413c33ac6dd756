"""The loop over time on JAX."""

import jax

scan = jax.lax.scan
