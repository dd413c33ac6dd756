"""Attention in less memory or time than all pairs of positions take."""
