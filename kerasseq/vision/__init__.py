"""Vision Transformers: patches of an image as tokens."""
