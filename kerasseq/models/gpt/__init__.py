"""GPT: a decoder that writes text, and its heads."""
