"""Fast paths on PyTorch, each tested against `reference/`."""
