"""Reads text files: lists and opens them, whatever they are called, and turns their bytes into rows (FI-1 to FI-9)."""
