"""Reads Kafka topics with `KafkaSpout`, and manages the offsets that it commits (KS-1 to KS-9, KS-11).

Begin with `spout`, then read `consumer_loop`, `partitions` and `offset_manager`.
"""
