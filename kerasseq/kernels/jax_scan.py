"""The loop over time on JAX."""

import jax


def scan(step, carry, inputs, reverse=False):
    """See `kerasseq.kernels.scan`."""
    return jax.lax.scan(step, carry, inputs, reverse=reverse)
