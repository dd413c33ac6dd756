"""Where a token stands: codes that are added, turned into, or lead to a bias."""
