"""Word vectors: skip-gram, CBOW and GloVe, their files and questions to them."""
