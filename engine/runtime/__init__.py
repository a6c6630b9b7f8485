"""Run of a topology: actors that poll, execute and settle tuples, their connections, and their supervisor."""
