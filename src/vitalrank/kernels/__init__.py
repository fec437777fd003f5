"""Compiled inner loops, one module per device with the same function names and arguments."""
