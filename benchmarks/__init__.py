"""The numbers that kerasseq claims, each as a command: `python -m benchmarks`."""
