"""State and maps of values in SQLite files: `sqlite:///path` (CP-8, TX-8)."""
