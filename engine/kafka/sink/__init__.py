"""Writes tuples to Kafka. `KafkaSink` writes one record for each tuple (KS-10). Begin with `sink`, then read `partition_sender`."""
