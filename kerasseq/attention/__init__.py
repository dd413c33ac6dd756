"""Attention: scores, alignment, many heads, and regression by kernels."""
