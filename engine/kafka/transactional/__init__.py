"""Reads batches from Kafka and writes each batch exactly once to Kafka, in transactional topologies (TX-10).

Begin with `batch_spouts` and `kafka_committer`. `batch_reader` describes a batch. `batch_writer` describes the records that are written
with its txid.
"""

from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.batch_spouts import KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.kafka.transactional.committer_config import KafkaCommitterConfig
from engine.kafka.transactional.kafka_committer import KafkaCommitter

__all__ = ["KafkaBatchSpoutConfig", "KafkaCommitter", "KafkaCommitterConfig", "KafkaOpaqueSpout", "KafkaTransactionalSpout"]
