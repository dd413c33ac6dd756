"""From one sequence to another."""
