"""Classifies errors of Kafka's client, retries transient ones, and makes error texts with hints."""

import asyncio
import ssl
from collections.abc import Callable
from typing import ClassVar, Final, Literal, Self, TypeAlias

from aiokafka import errors

from engine.backoff import Backoff
from engine.errors import EngineError, FatalError
from engine.installation import install_command
from engine.kafka.client.partition import PartitionId

Report: TypeAlias = Callable[[BaseException], None]

BACKOFF: Final = Backoff(0.1, 5.0)
"""Pauses before the retries of connections, reads and dead letters."""
_PASSING: Final = (
    errors.KafkaTimeoutError,
    errors.NoBrokersAvailable,
    errors.CommitFailedError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
    errors.RebalanceInProgressError,
    errors.BrokerNotAvailableError,
    errors.ReplicaNotAvailableError,
    errors.CorruptRecordException,
    errors.UnknownError,
    asyncio.TimeoutError,
    OSError,
)
"""Transient errors that aiokafka does not call retriable. OSError means that the host is down, or has no address yet."""

_OF_FILES: Final = (ssl.SSLError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
"""Subclasses of OSError that a retry cannot repair, because a certificate does not match or cannot be read."""

ErrorKind: TypeAlias = Literal["refused", "passing", "fatal"]

_REFUSED: Final = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidTimestampError,
)
_SPOILT: Final = (
    errors.OutOfOrderSequenceNumber,
    errors.DuplicateSequenceNumber,
    errors.UnknownProducerId,
    errors.InvalidProducerEpoch,
    errors.InvalidProducerIdMapping,
    errors.ProducerFenced,
    errors.ProducerClosed,
)
"""Errors of one producer only. A new producer, with a new producer id, can continue."""

_NO_BROKER_YET: Final = "Did we not perform bootstrap?"
"""Text of aiokafka's assertion error while a broker starts and its metadata does not contain the broker itself yet."""

CODECS_HINT: Final = f"{install_command('kafka')}, or only cramjam for snappy, lz4 and zstd."

_HINTS: Final[dict[type[BaseException], str]] = {
    errors.SaslAuthenticationFailed: "Check username, password and mechanism of KafkaSecurity.",
    errors.AuthenticationFailedError: "Check username, password and mechanism of KafkaSecurity.",
    errors.AuthenticationMethodNotSupported: "Choose a mechanism of KafkaSecurity that the brokers offer.",
    errors.IllegalSaslStateError: "The brokers' listener has no SASL. Write its protocol into KafkaSecurity.",
    errors.UnsupportedSaslMechanismError: "Choose a mechanism of KafkaSecurity that the brokers offer.",
    errors.TopicAuthorizationFailedError: "Give the user READ and DESCRIBE on the topic (sinks: WRITE, committers: all three).",
    errors.GroupAuthorizationFailedError: "Give the user READ on the group.",
    errors.ClusterAuthorizationFailedError: "Give the user IDEMPOTENT_WRITE on the cluster, or write client={'enable_idempotence': False}.",
    errors.TransactionalIdAuthorizationFailed: "Give the user WRITE on transactional ids that begin with 'stormcell-tx:'.",
    errors.InvalidTransactionTimeout: "Choose a transaction_timeout_ms within the brokers' transaction.max.timeout.ms.",
    errors.InvalidGroupIdError: "Choose another name for the group.",
    errors.InvalidSessionTimeoutError: "Choose a session_timeout_ms within group.min.session.timeout.ms and group.max.session.timeout.ms.",
    errors.InconsistentGroupProtocolError: "All members of a group need the same assignor. Choose their assignor, or another group.",
    errors.InvalidTopicError: "Choose a topic that is not internal. Its name has letters, digits, '.', '_' and '-'.",
    errors.UnsupportedCodecError: f"Install the codec of the records: {CODECS_HINT}",
    errors.UnrecognizedBrokerVersion: "The brokers must be Kafka 2.1 or newer.",
    errors.IncompatibleBrokerVersion: "The brokers must be Kafka 2.1 or newer.",
    ssl.SSLError: "Check protocol, cafile and certificates of KafkaSecurity.",
    OSError: "Check cafile, certfile and keyfile of KafkaSecurity.",
    TypeError: "Correct client={...}. It takes the options of aiokafka's client.",
    ValueError: "Correct client={...}. It takes the options of aiokafka's client.",
}

FALLBACK_HINT: Final = "Check brokers, security and rights. The brokers' logs have details."


def is_transient(error: BaseException) -> bool:
    """Return True if a retry may succeed, for example after a broker restart or a rebalance."""
    if isinstance(error, _OF_FILES):
        return False
    if isinstance(error, AssertionError):
        return str(error) == _NO_BROKER_YET
    return isinstance(error, _PASSING) or (isinstance(error, errors.KafkaError) and error.retriable)


def send_error_kind(error: BaseException) -> ErrorKind:
    """Classify the error of a failed send.

    `refused`: no broker accepts these records, and nothing was written. `passing`: a retry may succeed, and the records may have been
    written. `fatal`: no record can be written.
    """
    if isinstance(error, _REFUSED):
        return "refused"
    return "passing" if concerns_producer(error) or is_transient(error) else "fatal"


def concerns_producer(error: BaseException) -> bool:
    """Return True if only the producer is broken. A new producer can send the same records at once."""
    # A bare KafkaError means that aiokafka's sender has died.
    return isinstance(error, _SPOILT) or type(error) is errors.KafkaError


def fatal_error(error: BaseException, doing: str) -> FatalError:
    """Return the error that ends the run, because no retry would succeed. doing: the operation, such as "reading topics 'a' as group
    'g'".
    """
    what = f"Kafka refused {doing}" if isinstance(error, errors.KafkaError) else f"{doing} failed"
    found = FatalError(f"{what}: {describe_error(error)}", hint=hint_of(error) or FALLBACK_HINT)
    found.__cause__ = error
    return found


def hint_of(error: BaseException) -> str | None:
    """Return the hint for an error, or None."""
    return next((text for kind, text in _HINTS.items() if isinstance(error, kind)), None)


def describe_error(error: BaseException) -> str:
    """Return the class and the text of a client error as one line."""
    kind = type(error).__name__
    said = error.args[-1] if isinstance(error, errors.CommitFailedError) else error  # the other arguments are advice for plain consumers
    text = " ".join(str(said).split())
    return text if kind in text else f"{kind}: {text}" if text else kind


class KafkaWarning(EngineError):
    """A problem with Kafka that the run survives. The warning is reported, never raised."""


def lost_offsets_warning(what: str, wanted: int, start: int) -> KafkaWarning:
    """Return the warning that reading continues at `start`, because the broker does not have the wanted offset."""
    never = max(0, start - wanted)
    if not never:
        return KafkaWarning(f"{what}. Reading continues at {start}", hint="Was the topic created again?")
    return KafkaWarning(f"{what}. Reading continues at {start}; {never} offsets were never read", hint="Raise the topic's retention.")


class UnstableOffsetError(errors.KafkaError):  # type: ignore[misc]
    """An open transaction may still change a committed offset. aiokafka does not know this error of the protocol."""

    errno: ClassVar[int] = 88
    retriable: ClassVar[bool] = True

    @classmethod
    def of(cls, group: str, partition: PartitionId) -> Self:
        """Return the error for a partition of a group, with advice."""
        return cls(
            f"the offset of topic {partition.topic!r}, partition {partition.partition}, in group {group!r} belongs to a transaction that "
            "has not ended. The brokers abort the transaction after its transaction.timeout.ms. To end it earlier, start its producer "
            "again, or use kafka-transactions.sh"
        )


class RetryPolicy:
    """Waits before each retry, for the pauses of `BACKOFF`. Call `reset()` after a success."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._failures = 0

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._failures = 0

    async def wait_or_raise(self, error: Exception, doing: str) -> None:
        """Report a transient error and wait. Raise FatalError for any other error. doing: the operation, such as "reading topics 'a'"."""
        if isinstance(error, FatalError):
            raise error
        if not is_transient(error):
            raise fatal_error(error, doing)
        self._failures += 1
        pause = BACKOFF.pause_secs(self._failures)
        self._report(KafkaWarning(f"{doing} failed: {describe_error(error)}", hint=f"It will be retried in {pause:g} s."))
        await asyncio.sleep(pause)
