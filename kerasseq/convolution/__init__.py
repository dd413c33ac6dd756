"""Convolutions over time that read no later steps."""
