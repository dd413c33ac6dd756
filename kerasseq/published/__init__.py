"""Published models: the table of their sizes, and how many parameters they have."""
