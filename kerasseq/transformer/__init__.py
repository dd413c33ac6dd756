"""The blocks of which Transformers are built, and their parts."""
