"""Top-N on a GPU."""
