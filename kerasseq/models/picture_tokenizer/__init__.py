"""Pictures as grids of ids: a vector quantizer, and the autoencoder around it."""
