"""Tokenization in stages, as in Hugging Face's `tokenizers`.

normalizer → pre-tokenizer → model, and for `decode` model → decoder. Added tokens are
found in the text before. Each module has one stage, and a table of its components under
the names that a `tokenizer.json` uses.
"""
