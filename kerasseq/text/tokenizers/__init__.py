"""Tokenizers, from characters to unigrams."""
