"""Helpers that every package may use: checks of settings, files and locks, memory, threads, devices."""
