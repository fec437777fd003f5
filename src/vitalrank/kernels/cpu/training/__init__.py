"""Training steps on the CPU."""
