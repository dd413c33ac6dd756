"""Fast paths on TensorFlow, each tested against `reference/`."""
