"""Connects topologies to Kafka with a spout, which tracks each record to its end, and a sink. Needs `pip install 'stormcell[kafka]'`.

Begin with `source/spout` and `sink/sink`. docs/JOURNEY_KAFKA.md follows a record through both, and docs/ARCHITECTURE.md describes the
packages.
"""

try:
    import aiokafka as _aiokafka
except ImportError as error:
    raise ImportError("engine.kafka needs aiokafka, which is not installed. Install it: pip install 'stormcell[kafka]'") from error

from engine.kafka.client.connection import KafkaSecurity
from engine.kafka.sink.sink import KafkaSink
from engine.kafka.sink.sink_config import KafkaSinkConfig
from engine.kafka.source.spout import KafkaSpout
from engine.kafka.source.spout_config import KafkaSpoutConfig
from engine.kafka.source.translate import KafkaRecord, ToStream

__all__ = ["KafkaRecord", "KafkaSecurity", "KafkaSink", "KafkaSinkConfig", "KafkaSpout", "KafkaSpoutConfig", "ToStream"]

del _aiokafka
