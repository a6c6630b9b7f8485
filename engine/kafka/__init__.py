"""Connects topologies to Kafka with a spout, which tracks each record to its end, and a sink. Needs the extra `kafka`.

Begin with `source/spout` and `sink/sink`. docs/JOURNEY_KAFKA.md follows a record through both, and docs/ARCHITECTURE.md describes the
packages.
"""

try:
    import aiokafka as _aiokafka
except ModuleNotFoundError as error:
    if error.name != "aiokafka":
        raise
    from engine.installation import install_command

    text = f"engine.kafka needs aiokafka, which is not installed. Install it: {install_command('kafka')}"
    raise ModuleNotFoundError(text, name="aiokafka") from None

from engine.kafka.client.connection import KafkaSecurity
from engine.kafka.sink.sink import KafkaSink
from engine.kafka.sink.sink_config import KafkaSinkConfig
from engine.kafka.source.spout import KafkaSpout
from engine.kafka.source.spout_config import KafkaSpoutConfig
from engine.kafka.source.translate import KafkaRecord, ToStream

__all__ = ["KafkaRecord", "KafkaSecurity", "KafkaSink", "KafkaSinkConfig", "KafkaSpout", "KafkaSpoutConfig", "ToStream"]

del _aiokafka
