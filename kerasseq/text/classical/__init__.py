"""Models of text before networks: counts, hidden states, rules."""
