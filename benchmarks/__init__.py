"""Benchmarks behind every figure that kerasseq claims: `python -m benchmarks`."""
