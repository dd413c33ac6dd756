"""External memories: what a network reads and writes beside its state."""
