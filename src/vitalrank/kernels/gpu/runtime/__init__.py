"""Lanes of a warp, and the random generator."""
