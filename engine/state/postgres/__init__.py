"""Maps of values in PostgreSQL: `postgresql://` (TX-8). Only this package imports asyncpg, from the extra `postgres`."""
