"""Speech: features of a waveform, and the layers and losses that turn it into text."""
