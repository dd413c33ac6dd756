"""Recurrent networks: one equation per file; `loop` drives them all through time."""
