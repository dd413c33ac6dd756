"""Sound: from a waveform to frames of features."""
