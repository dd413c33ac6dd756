"""Components of a tokenizer, as in Hugging Face's `tokenizers`.

normalizer → pre-tokenizer → model, and for `decode` model → decoder. Added tokens are
found in the text first. Each module has one kind of component, with a table of their
names in a `tokenizer.json`.
"""
