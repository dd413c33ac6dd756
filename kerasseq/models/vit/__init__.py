"""Vision Transformer: patches of an image as tokens."""
