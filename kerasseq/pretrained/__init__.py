"""Weights of others: folders of Hugging Face and KerasHub, read and written."""
