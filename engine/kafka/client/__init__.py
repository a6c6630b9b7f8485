"""Clients of a Kafka cluster. Only this package uses private parts of aiokafka.

Begin with `connection`, then read `consumer_link` (reads), `producer_link` (writes) and `admin_client` (tools).
"""
