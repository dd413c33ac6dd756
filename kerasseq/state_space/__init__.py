"""State space models: linear recurrences with a structured decay of the state."""
