"""Transactions with Kafka: where their batches come from, and where what they come to is written, exactly once (TX-10).

Begin with `batch_spouts`; `batch_reader` has what a batch is.
"""

from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.batch_spouts import KafkaOpaqueSpout, KafkaTransactionalSpout

__all__ = ["KafkaBatchSpoutConfig", "KafkaOpaqueSpout", "KafkaTransactionalSpout"]
