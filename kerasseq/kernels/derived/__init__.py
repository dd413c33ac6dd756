"""Derives the loop of a recurrent cell, and its gradient, from one step."""
