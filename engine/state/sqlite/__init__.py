"""State in one SQLite file: `sqlite:///path` (CP-8)."""
