"""Ledgers in ZooKeeper: `zookeeper://` (CP-8). Imports the client of the extra `zookeeper`, as nothing else of the engine does."""
