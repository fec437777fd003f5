"""Top-N on the CPU."""
