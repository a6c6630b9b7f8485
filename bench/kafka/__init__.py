"""Kafka source and sink compared with other clients and engines on one broker. Also latency and memory of the source."""
