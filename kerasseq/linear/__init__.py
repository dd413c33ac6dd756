"""Linear attention: layers with a state of constant size in place of all keys."""
