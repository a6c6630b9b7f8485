"""Transactions with Kafka: where their batches come from, and where what they come to is written, exactly once (TX-10).

Begin with `batch_spouts` and `kafka_committer`; `batch_reader` has what a batch is, `batch_writer` what is written with its txid.
"""

from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.batch_spouts import KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.kafka.transactional.committer_config import KafkaCommitterConfig
from engine.kafka.transactional.kafka_committer import KafkaCommitter

__all__ = ["KafkaBatchSpoutConfig", "KafkaCommitter", "KafkaCommitterConfig", "KafkaOpaqueSpout", "KafkaTransactionalSpout"]
