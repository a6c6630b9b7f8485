"""State and maps of values in Redis: `redis://`, `rediss://` (CP-8, TX-8). Only this package imports the client, from the extra `redis`."""
