"""Fast paths on JAX, each tested against `reference/`."""
