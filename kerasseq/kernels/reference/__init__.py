"""The definition of every operation, in `keras.ops`: what the fast paths equal."""
