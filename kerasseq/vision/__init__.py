"""Transformers for images: patches as tokens."""
