"""Speech: features of a waveform, and the layers that turn them into text."""
