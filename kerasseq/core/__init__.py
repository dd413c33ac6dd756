"""Checks, masks, serialization and files. Importing it does not load Keras."""
