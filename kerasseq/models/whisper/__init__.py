"""Whisper: an encoder-decoder from sounds to texts, and its decoding."""
