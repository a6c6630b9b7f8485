"""Kafka: a source and a sink beside other clients and engines on the same broker; `bench.kafka.contest` runs them."""
