"""Maps each of Storm's keys (`topology.…`) to its setting, or to an answer that says what to do instead.

The keys come from Storm's `Config.java`, versions 0.5 to 3.0. An accepted key has the type and the unit of its setting, so no value is
converted. A key whose values have another meaning here gets an answer.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SETTING_OF_STORM_KEY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "topology.acker.executors": "acker_executors",
        "topology.ackers": "acker_executors",
        "topology.enable.message.timeouts": "enable_message_timeouts",
        "topology.executor.receive.buffer.size": "executor_receive_buffer_size",
        "topology.max.spout.pending": "max_spout_pending",
        "topology.message.timeout.secs": "message_timeout_secs",
        "topology.state.checkpoint.interval.ms": "state_checkpoint_interval_ms",
    }
)
"""Keys that a TOML file and `-c` accept, each with its setting."""

_NO_CLUSTER: Final = "A run is one Python process, without Nimbus, workers or a scheduler. Remove the key."
_IN_MEMORY: Final = "Tuples go from task to task in memory, without transfer queues, serialization or a network. Remove the key."
_ALWAYS_BACKPRESSURE: Final = "Backpressure is always on and drops nothing; executor_receive_buffer_size bounds a mailbox. Remove the key."
_NO_POLLING: Final = "A tuple, an ack or context.wake() wakes an idle task at once, so there is no wait strategy. Remove the key."
_PARALLELISM: Final = "Write parallelism in set_spout() or set_bolt(): the number of tasks of that component."
_METRICS: Final = "Metrics need no registration: use run.snapshot(), run.metrics_text() or `run --json`. Remove the key."
_TRACE: Final = "Set trace_sample_rate (0 to 1): the share of trees whose path through the components is recorded."
_NO_MULTILANG: Final = "Components are written in Python and need no subprocess. Remove the key."
_NO_WINDOWS: Final = "There are no windowed bolts. Keep the tuples of a window in a StatefulBolt, and close it on a tick."
_GROUPINGS: Final = "Each subscription chooses: shuffle_grouping() in turn, or load_aware_grouping() by queued work. Remove the key."
_ERROR_LIMIT: Final = "The limit is fixed: 5 different errors of a task in 10 seconds are reported. Remove the key."

_ANSWERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "acker.cpu": _NO_CLUSTER,
        "acker.resources": _NO_CLUSTER,
        "auto-credentials": _NO_CLUSTER,
        "auto.task.hooks": "There are no task hooks. Use run.on_report for errors, context.counter() for metrics, engine.testing in tests.",
        "backpressure": _ALWAYS_BACKPRESSURE,
        "batch.flush": _IN_MEMORY,
        "blobstore.map": _NO_CLUSTER,
        "bolt.wait": _NO_POLLING,
        "bolts": _NO_WINDOWS,
        "bolts.outgoing.overflow": _ALWAYS_BACKPRESSURE,
        "builtin.metrics": _METRICS,
        "classpath": _NO_CLUSTER,
        "component": _NO_CLUSTER,
        "debug": _TRACE,
        "disable.loadaware": _GROUPINGS,
        "disruptor": _IN_MEMORY,
        "enable.send.iconnection": _IN_MEMORY,
        "enable.v2": _METRICS,
        "environment": "Environment variables are those of the process. Set them where it is started.",
        "error.throttle": _ERROR_LIMIT,
        "event.logger": _TRACE,
        "eventlogger": _TRACE,
        "executor.overflow": _ALWAYS_BACKPRESSURE,
        "executor.send": _IN_MEMORY,
        "fall.back.on.java.serialization": _IN_MEMORY,
        "groups": _NO_CLUSTER,
        "isolate.machines": _NO_CLUSTER,
        "kryo": _IN_MEMORY,
        "localityaware": _GROUPINGS,
        "logging": "Use `run --log-level` and `--log-json`. An embedded run logs to the loggers of its host.",
        "max.error.report": _ERROR_LIMIT,
        "max.replication": _NO_CLUSTER,
        "max.task.parallelism": _PARALLELISM,
        "metrics": _METRICS,
        "metrics.consumer.cpu": _NO_CLUSTER,
        "metrics.consumer.resources": _NO_CLUSTER,
        "min.replication": _NO_CLUSTER,
        "multilang": _NO_MULTILANG,
        "name": "A topology is named where it is built: TopologyBuilder(name).",
        "oci.image": _NO_CLUSTER,
        "optimize": _IN_MEMORY,
        "priority": _NO_CLUSTER,
        "producer.batch": _IN_MEMORY,
        "ras": _NO_CLUSTER,
        "readonly": _NO_CLUSTER,
        "receiver.buffer": _IN_MEMORY,
        "scheduler": _NO_CLUSTER,
        "serializations": _IN_MEMORY,
        "serialized.message.size": _IN_MEMORY,
        "shellbolt": _NO_MULTILANG,
        "skip.missing": _IN_MEMORY,
        "sleep.spout.wait": _NO_POLLING,
        "spout.recvq": _NO_POLLING,
        "spout.wait": _NO_POLLING,
        "spread.components": _NO_CLUSTER,
        "state.kryo": "Set state_codec: 'msgpack' for plain values, 'pickle' for objects of your own classes.",
        "state.provider": "Set state_provider to a URL, such as sqlite:///path or redis://host:port/db, instead of a class.",
        "state.synchronization": "The nearest setting is state_timeout_secs: how long a store that cannot be reached is tried again.",
        "stats": "Every tuple is counted, without sampling. Remove the key.",
        "submitter": _NO_CLUSTER,
        "subprocess": _NO_MULTILANG,
        "tasks": _PARALLELISM,
        "testing": _IN_MEMORY,
        "tick.tuple": "Ticks belong to a bolt: write tick_tuple_freq_secs in set_bolt() or in its class.",
        "transactional.id": "A transactional topology gets its id where it is built: TransactionalTopologyBuilder(id, …).",
        "transfer": _IN_MEMORY,
        "trident": "There is no Trident. See TransactionalTopologyBuilder, and batch_interval_ms for the pause of an idle source.",
        "tuple": _IN_MEMORY,
        "upstream.feedback": _GROUPINGS,
        "users": _NO_CLUSTER,
        "v2.metrics": _METRICS,
        "version": "A topology has no version. Remove the key.",
        "worker": _NO_CLUSTER,
        "worker.metrics": _METRICS,
        "worker.shared.thread.pool": "Blocking code of a BasicBolt runs in a thread pool of its own: write threads=n in set_bolt().",
        "workers": f"A run is one Python process. {_PARALLELISM}",
    }
)
"""Answers by the first words of a key, without `topology.`. The longest match counts."""


def answer_for_storm_key(key: str) -> str | None:
    """Return the answer for a key of Storm that is not a setting here, None for any other key.

    >>> answer_for_storm_key("topology.tick.tuple.freq.secs")
    'Ticks belong to a bolt: write tick_tuple_freq_secs in set_bolt() or in its class.'
    """
    beginnings = [beginning for beginning in _ANSWERS if f"{key}.".startswith(f"topology.{beginning}.")]
    return _ANSWERS[max(beginnings, key=len)] if beginnings else None
