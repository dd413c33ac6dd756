"""Tokenizers: characters, words, byte-pair encoding, WordPiece, unigram model."""
