"""Ledgers in ZooKeeper: `zookeeper://` (CP-8). Only this package imports the client, from the extra `zookeeper`."""
