"""Pictures, films, sounds and words in one Transformer."""
