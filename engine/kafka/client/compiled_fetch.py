"""Decodes fetched records in compiled code, instead of aiokafka's Python code for each record.

`read_in_compiled_code` needs private parts of aiokafka. All of them are in this module. If a part is missing, or the consumer has
deserializers, aiokafka decodes the records as usual. Both ways return the same records (KS-8, KS-10).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from aiokafka import TopicPartition, codec
from aiokafka.consumer import fetcher as fetchers
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from engine.kafka.client.partition import PartitionId
from engine.kernel import RecordReader
from engine.log import EngineLogger

_LOG: Final = EngineLogger("engine.kafka")
_CODECS: Final[Mapping[int, tuple[str, Callable[[], bool], Callable[[bytes], bytes]]]] = {
    1: ("gzip", codec.has_gzip, codec.gzip_decode),
    2: ("snappy", codec.has_snappy, codec.snappy_decode),
    3: ("lz4", codec.has_lz4, codec.lz4_decode),
    4: ("zstd", codec.has_zstd, codec.zstd_decode),
}
_OF_FETCHER: Final = ("_records", "_client", "_proc_fetch_request", "_key_deserializer", "_value_deserializer", "_check_crcs")
_OF_RESULT: Final = ("_partition_records", "_update_position", "check_assignment", "has_more", "getall")
_OF_RECORDS: Final = ("_aborted_transactions", "_isolation_level", "_records_iterator", "next_fetch_offset")

TopicIdOf: TypeAlias = Callable[[PartitionId], str | None]


class Codec:
    """The parts of `RecordReader` that need aiokafka or its codecs."""

    crc32c = staticmethod(calc_crc32c)
    corrupt = CorruptRecordException

    @staticmethod
    def decompress(kind: int, records: bytes) -> bytes:
        """Return the records of a compressed batch. Raise UnsupportedCodecError, as aiokafka does, if a library is missing."""
        if kind not in _CODECS:
            raise UnsupportedCodecError(f"Unknown compression codec {kind:#04x}")
        name, is_there, decode = _CODECS[kind]
        if not is_there():
            raise UnsupportedCodecError(f"Libraries for {name} compression codec not found")
        return decode(records)

    @staticmethod
    def old_batch(batch: bytes) -> Any:
        """Return a batch of the format v0 or v1."""
        return MemoryRecords(batch).next_batch()


def read_in_compiled_code(consumer: Any, topic_id_of: TopicIdOf) -> bool:
    """Make a consumer decode its records in compiled code from now on. Return False if aiokafka decodes them as usual.

    topic_id_of: returns the topic's id for the records of a partition.
    """
    fetcher: Any = getattr(consumer, "_fetcher", None)
    if not _has_known_parts(fetcher):
        _LOG.warning("this version of aiokafka is unknown, so records are decoded more slowly. Install aiokafka 0.13 or 0.14.")
        return False
    if fetcher._key_deserializer is not None or fetcher._value_deserializer is not None:
        return False
    answers = _Answers(fetcher._client)
    fetcher._client = answers
    fetch = fetcher._proc_fetch_request

    async def fetch_and_decode(assignment: Any, node_id: int, request: Any) -> Any:
        before = dict(fetcher._records)
        found = await fetch(assignment, node_id, request)
        answer = answers.newest.pop(node_id, None)
        if answer is not None:
            _replace_readers(fetcher, before, answer, topic_id_of)
        return found

    fetcher._proc_fetch_request = fetch_and_decode
    return True


def broken_offset(fetched: Any) -> int | None:
    """Return the lowest possible offset of the record of a fetch that could not be decoded. None if there is no such record."""
    records = getattr(fetched, "_partition_records", None)
    if records is None:
        return None
    if isinstance(records, RecordReader):
        broken = records.is_broken
    else:
        broken = getattr(records._records_iterator, "gi_frame", records) is None  # the generator has raised
    return records.next_fetch_offset if broken else None


def offset_after_broken(fetched: Any) -> int | None:
    """Return the offset after the batch of the record that could not be decoded. None if it is unknown."""
    records = getattr(fetched, "_partition_records", None)
    return records.after_broken if isinstance(records, RecordReader) else None


def _has_known_parts(fetcher: Any) -> bool:
    """Tell whether aiokafka has all private parts that this module needs."""
    if fetcher is None or not all(hasattr(fetcher, name) for name in _OF_FETCHER) or not hasattr(fetchers, "READ_COMMITTED"):
        return False
    at = TopicPartition("", 0)
    try:
        records = PartitionRecords(at, MemoryRecords(b""), [], 0, None, None, True, 0)
        result = FetchResult(at, assignment=None, partition_records=records, backoff=0)
    except TypeError:
        return False
    return all(hasattr(result, name) for name in _OF_RESULT) and all(hasattr(records, name) for name in _OF_RECORDS)


class _Answers:
    """A fetcher's client that keeps the newest answer of each broker to a fetch. A fetcher has one fetch in flight for each broker."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.newest: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send(self, node_id: int, request: Any, **options: Any) -> Awaitable[Any]:
        """Send a request."""
        sent: Awaitable[Any] = self._client.send(node_id, request, **options)
        return self._keep(node_id, sent) if isinstance(request, FetchRequest) else sent

    async def _keep(self, node_id: int, sent: Awaitable[Any]) -> Any:
        self.newest.pop(node_id, None)
        answer = self.newest[node_id] = await sent
        return answer


def _replace_readers(fetcher: Any, before: Mapping[TopicPartition, Any], answer: Any, topic_id_of: TopicIdOf) -> None:
    """Replace aiokafka's readers of this answer. No code has run since the fetcher made them, so they are not begun."""
    for topic, partitions in answer.topics:
        for number, *_, batches in partitions:
            at = TopicPartition(topic, number)
            result = fetcher._records.get(at)
            if type(result) is FetchResult and result is not before.get(at) and isinstance(batches, bytes):
                _replace_reader(fetcher, result, at, batches, topic_id_of(PartitionId(*at)))


def _replace_reader(fetcher: Any, result: Any, at: TopicPartition, batches: bytes, topic_id: str | None) -> None:
    slow = result._partition_records
    reader = result._partition_records = RecordReader(
        at.topic,
        at.partition,
        batches,
        slow.next_fetch_offset,
        codec=Codec,
        aborted=slow._aborted_transactions,
        read_committed=slow._isolation_level == fetchers.READ_COMMITTED,
        checks_crcs=fetcher._check_crcs,
        topic_id=topic_id,
    )

    def take(max_records: int | None = None) -> list[Any]:
        """Return records like `FetchResult.getall`."""
        if not result.check_assignment(at) or not result.has_more():
            return []
        records = reader.take(_ALL if max_records is None else max_records)
        result._update_position()
        if reader.is_done:
            result._partition_records = None
        return records

    result.getall = take


_ALL: Final = 2**31 - 1
