"""BERT: bidirectional encoder, pre-training and heads."""
