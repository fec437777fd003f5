"""Lanes of a warp and random words."""
