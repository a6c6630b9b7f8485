"""Kafka: a source and a sink beside other clients and engines on one broker; latency and memory of the source."""
