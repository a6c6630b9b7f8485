"""State in Redis: `redis://`, `rediss://` (CP-8). Imports the client of the extra `redis`, as nothing else of the engine does."""
