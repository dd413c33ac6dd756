"""From one sequence to another: recurrent, Transformer and T5."""
