"""`KafkaSpoutConfig` has the settings of a Kafka spout. Other settings share its checks of topics, start and output."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from engine.api.arguments import takes
from engine.api.fields import OutputFields, declare_streams
from engine.config import setting
from engine.config.validated import set_frozen, validated
from engine.errors import UsageError
from engine.kafka.client.connection import PLAINTEXT, REFUSED_EVERYWHERE, Brokers, KafkaSecurity, connection_faults
from engine.kafka.source.translate import RECORD_FIELDS, Translator, whole_record

_C_INT_MAXIMUM: Final = 2**31 - 1
BROKER_METADATA_BYTES: Final = 4096
"""Limit of the metadata of a commit. This is the brokers' default of `offset.metadata.max.bytes`."""

_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_OF_A_NAME: Final = "A name has 1 to 249 letters, digits, '.', '_' and '-'."
_LAZY: Final = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)

_REFUSED: Final[Mapping[str, str]] = REFUSED_EVERYWHERE | {
    "enable_auto_commit": "The spout itself commits, so that no acked record is lost (KS-2). Write guarantee=...",
    "auto_commit_interval_ms": "Write offset_commit_period_ms=...",
    "auto_offset_reset": "Write start=... and out_of_range=...",
    "group_id": "Write group=...",
    "group_instance_id": "Write group_instance_id=... of the config. Each task gets its own id.",
    "partition_assignment_strategy": "Write assignor=...",
    "isolation_level": "Write isolation_level=... of the config.",
    "session_timeout_ms": "Write session_timeout_ms=... of the config.",
    "rebalance_timeout_ms": "Write rebalance_timeout_ms=... of the config.",
    "max_poll_records": "Write max_poll_records=... of the config.",
    "client_id": "Write client_id=... of the config.",
    "heartbeat_interval_ms": "Write heartbeat_interval_ms=... of the config.",
    "request_timeout_ms": "Write request_timeout_ms=... of the config.",
    "fetch_min_bytes": "Write fetch_min_bytes=... of the config.",
    "fetch_max_bytes": "Write fetch_max_bytes=... of the config.",
    "fetch_max_wait_ms": "Write fetch_max_wait_ms=... of the config.",
    "max_partition_fetch_bytes": "Write max_partition_fetch_bytes=... of the config.",
}


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSpoutConfig:
    """All settings of a Kafka spout. ConfigError names all faults at once.

    `KafkaSpoutConfig(brokers="127.0.0.1:9092", topics="lines", group="word-count")`
    """

    brokers: Brokers
    """One `"host:port"`, a comma-separated list, or a sequence. The client learns the other brokers from the cluster."""
    topics: str | tuple[str, ...] | list[str] = ()
    """Topics to read: one name or several."""
    pattern: str | None = setting(
        None, help="Regular expression that topic names must match from their beginning. Use it instead of topics."
    )
    group: str | None = setting(None, help="Consumer group, which stores the commits. Only membership='assign' works without one.")
    membership: Literal["group", "assign"] = setting(
        "group", help="Who assigns partitions: the group, to all its members in all processes; or the spout, to its own tasks by index."
    )
    group_instance_id: str | None = setting(
        None, help="Static membership: a restart within the session keeps the partitions. The index of the task is appended."
    )
    client_id: str | None = setting(None, help="Name of this client in the brokers' logs and quotas. none: topology, component and task.")
    security: KafkaSecurity = PLAINTEXT
    """TLS and SASL."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """More options of `aiokafka.AIOKafkaConsumer`, passed on unchanged."""

    translator: Translator = whole_record
    """Function from a record to the values of a tuple. None skips the record."""
    fields: OutputFields = RECORD_FIELDS
    """Streams and fields of the translator's tuples, like `output_fields` of any spout."""

    guarantee: Literal["at_least_once", "at_most_once", "no_guarantee"] = setting(
        "at_least_once", help="Effect of a crash on a record: it may be repeated, or lost, or either."
    )
    start: Literal["uncommitted_earliest", "uncommitted_latest", "earliest", "latest", "timestamp"] = setting(
        "uncommitted_earliest", help="Start position of a partition (KS-5)."
    )
    start_timestamp_ms: int | None = setting(None, minimum=0, help="Milliseconds since the epoch, for start='timestamp'.")
    out_of_range: Literal["earliest", "latest", "fail"] = setting(
        "earliest", help="Reaction to a start offset that does not exist, after retention or a new creation of the topic."
    )
    on_lost: Literal["fail", "skip"] = setting(
        "fail", help="Reaction of an exact spout to a stored position that does not exist: end the run, or continue as out_of_range says."
    )
    stop_at_end: bool = setting(False, help="Whether the spout ends at the end that each partition had when it was assigned.")
    isolation_level: Literal["read_uncommitted", "read_committed"] = setting(
        "read_uncommitted", help="Whether to read records of open and aborted transactions."
    )

    max_uncommitted_offsets: int = setting(
        100_000,
        minimum=1,
        maximum=_C_INT_MAXIMUM,
        help="Records of one partition after its committed offset at which the partition is paused.",
    )
    offset_commit_period_ms: float = setting(30_000.0, minimum=10, help="Milliseconds between two commits.")
    commit_acked_set: bool = setting(True, help="Whether a commit stores the acked offsets above it in its metadata (KS-7).")
    max_metadata_bytes: int = setting(
        BROKER_METADATA_BYTES, minimum=256, maximum=2**20, help="Limit of the metadata of a commit: the brokers' offset.metadata.max.bytes."
    )

    on_failure: Literal["go_on", "stop_partition"] = setting(
        "go_on",
        help="Effect of a failed record on its partition until its retry: other records continue, or wait in strict order (KS-11).",
    )
    retry_initial_ms: float = setting(0.0, minimum=0, help="Milliseconds before the first retry of a failed record.")
    retry_period_ms: float = setting(
        2.0, above=0, help="Unit of the backoff in milliseconds: from the second failure on, the retry after the n-th waits 2^(n-1) units."
    )
    retry_max_ms: float = setting(10_000.0, above=0, help="Milliseconds that a retry waits at most.")
    max_retries: int | None = setting(None, minimum=0, help="Retries of one record. none: no limit. A number needs on_give_up.")
    on_give_up: Literal["dead_letter", "drop"] | None = setting(None, help="Reaction to a record that fails after max_retries.")
    dead_letter_topic: str | None = setting(None, help="Topic for records that were given up. Their headers name the reason.")

    revoke_drain_ms: float = setting(5_000.0, minimum=0, help="Milliseconds that a rebalance waits for records in flight.")
    session_timeout_ms: int = setting(
        45_000, minimum=1_000, help="Milliseconds without a heartbeat after which the group removes this member."
    )
    rebalance_timeout_ms: int = setting(60_000, minimum=1_000, help="Milliseconds that the group waits for this member in a rebalance.")
    heartbeat_interval_ms: int = setting(3_000, minimum=10, help="Milliseconds between two heartbeats.")
    assignor: Literal["sticky", "roundrobin", "range"] = setting(
        "sticky", help="Assignment strategy of the group. All members need the same."
    )

    max_poll_records: int = setting(2_000, minimum=1, help="Records that one poll of the client returns at most.")
    fetch_min_bytes: int = setting(1, minimum=1, help="Bytes that a broker waits for before it answers a fetch.")
    fetch_max_wait_ms: int = setting(
        100, minimum=1, help="Milliseconds that a broker waits for fetch_min_bytes. A resumed partition may wait for the same time."
    )
    fetch_max_bytes: int = setting(52_428_800, minimum=1, help="Bytes of one answer to a fetch.")
    max_partition_fetch_bytes: int = setting(1_048_576, minimum=1, help="Bytes of one partition in an answer.")
    request_timeout_ms: int = setting(40_000, minimum=100, help="Milliseconds until a request without an answer fails.")
    topic_timeout_secs: float = setting(30.0, minimum=0, help="Seconds to wait for a missing topic, before the run ends with an error.")

    @property
    def carries_acked_set(self) -> bool:
        """True if commits store acked offsets above the commit. Strict order does not need this, because it emits these records again."""
        return self.guarantee == "at_least_once" and self.commit_acked_set and self.on_failure == "go_on"

    def _faults(self) -> Iterator[str]:
        yield from connection_faults(self, _REFUSED)
        yield from source_faults(self)
        if self.membership == "group" and self.group is None:
            yield "group is missing. Write group='word-count', or membership='assign' to read without a group."
        if self.membership == "assign" and self.group_instance_id:
            yield "group_instance_id is for membership='group'."
        if self.on_lost == "skip" and self.out_of_range == "fail":
            yield "on_lost='skip' and out_of_range='fail' exclude each other."
        yield from output_faults(self)
        yield from self._give_up_faults()
        yield from start_faults(self)
        if self.revoke_drain_ms >= self.rebalance_timeout_ms:
            yield f"revoke_drain_ms={self.revoke_drain_ms:g} must be below rebalance_timeout_ms={self.rebalance_timeout_ms}."
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            heartbeat, session = self.heartbeat_interval_ms, self.session_timeout_ms
            yield f"heartbeat_interval_ms={heartbeat} must be at most a third of session_timeout_ms={session}."

    def _give_up_faults(self) -> Iterator[str]:
        if self.on_give_up is None and self.dead_letter_topic is not None:
            set_frozen(self, "on_give_up", "dead_letter")
        if self.max_retries is not None and self.on_give_up is None:
            fix = "dead_letter_topic='...' or on_give_up='drop'"
            yield f"max_retries={self.max_retries} needs {fix}, to handle records that are given up."
        if self.on_give_up == "dead_letter" and self.dead_letter_topic is None:
            yield "on_give_up='dead_letter' needs a dead_letter_topic."
        if self.on_give_up == "drop" and self.dead_letter_topic is not None:
            yield "on_give_up='drop' and dead_letter_topic exclude each other."
        if self.guarantee == "at_least_once" and self.on_give_up is not None and self.max_retries is None:
            yield "max_retries is missing. Without it no record is ever given up."
        if self.on_failure == "stop_partition" and self.guarantee != "at_least_once":
            yield f"on_failure='stop_partition' needs guarantee='at_least_once': {self.guarantee!r} tracks no failures."
        if self.dead_letter_topic is not None and self.dead_letter_topic in self.topics:
            yield f"dead_letter_topic {self.dead_letter_topic!r} is one of the topics, so its records would be read again forever."


def source_faults(made: Any) -> Iterator[str]:
    """Yield the faults of topics and pattern, and normalize topics to a tuple."""
    if not isinstance(cast(object, made.topics), Iterable):
        yield f"topics must be names, not {made.topics!r}."
        set_frozen(made, "topics", ())
        return
    topics = (made.topics,) if isinstance(made.topics, str) else tuple(made.topics)
    set_frozen(made, "topics", topics)
    if not all(isinstance(cast(object, topic), str) and topic for topic in topics):
        yield f"topics must be names, not {made.topics!r}."
    else:
        yield from (f"topic {topic!r} is not a valid topic name. {_OF_A_NAME}" for topic in topics if not _NAME.fullmatch(topic))
    if bool(topics) == bool(made.pattern):
        yield "topics and pattern exclude each other." if topics else "topics is missing. Write topics='lines', or pattern='lines-.*'."
    if made.pattern is not None:
        try:
            re.compile(made.pattern)
        except re.error as error:
            yield f"pattern {made.pattern!r} is not a regular expression: {error}."


def start_faults(made: Any) -> Iterator[str]:
    """Yield the faults of the start position."""
    if made.start == "timestamp" and made.start_timestamp_ms is None:
        yield "start='timestamp' needs start_timestamp_ms."
    if made.start != "timestamp" and made.start_timestamp_ms is not None:
        yield f"start_timestamp_ms is for start='timestamp', not {made.start!r}."


def output_faults(made: Any) -> Iterator[str]:
    """Yield the faults of translator and fields."""
    if not callable(cast(object, made.translator)):
        yield f"translator must be a function of a record, not {made.translator!r}."
    elif any(is_lazy(made.translator) for is_lazy in _LAZY):
        yield f"translator {made.translator!r} must return values. Write it with def, without await and yield. Await in a bolt instead."
    elif not takes(made.translator, 1):
        yield f"translator {made.translator!r} cannot be called with one record. Write def translate(record): ..."
    try:
        declare_streams(made.fields)
    except UsageError as error:
        yield f"fields: {error.message}. {error.hint or ''}"
