"""The code that long labs show, as templates."""
