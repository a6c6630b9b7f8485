"""Records decoded by compiled code and by aiokafka are the same: every format, codec, gap, transaction and damage (KS-8, KS-10)."""

import pickle
import struct
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import TopicPartition, errors
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from engine.kafka.client import compiled_fetch
from engine.kafka.client.compiled_fetch import Codec, broken_offset, read_in_compiled_code
from engine.kernel import FetchedRecord, RecordReader
from tests.kafka.play import all_of, produce, settings
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-8")

FIELDS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "checksum")
SIZES: Final = ("serialized_key_size", "serialized_value_size")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def batch_of(
    base: int,
    deltas: list[int],
    *,
    codec: int = 0,
    flags: int = 0,
    producer: int = -1,
    last: int | None = None,
    seed: int = 0,
    key: bytes | None = None,
) -> bytes:
    """A batch of the format v2 with records at these deltas, as compaction may leave them. key: the key of all records."""
    draws = Random(seed)
    builder = DefaultRecordBatchBuilder(2, codec, int(bool(flags & TRANSACTIONAL)), producer, 0, 0, 1 << 20)
    for delta in deltas:
        drawn = draws.choice([None, b"", b"k" * draws.randrange(200)])
        value = draws.choice([None, b"", draws.randbytes(draws.randrange(300))])
        headers = [("", b""), ("twice", None), ("twice", b"\xff"), ("Größe", b"x" * 90)][: draws.randrange(5)]
        builder.append(delta, 1_700_000_000_000 + draws.randrange(-99, 9_999), drawn if key is None else key, value, headers)
    built = builder.build()
    struct.pack_into(">q", built, 0, base)
    struct.pack_into(">h", built, 21, struct.unpack_from(">h", built, 21)[0] | flags)
    struct.pack_into(">i", built, 23, deltas[-1] if last is None else last)
    return signed(built)


def signed(built: bytearray) -> bytes:
    """The batch with a valid checksum."""
    struct.pack_into(">I", built, 17, calc_crc32c(bytes(built[21:])))
    return bytes(built)


def old_batch(base: int, count: int, *, magic: int = 1, codec: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for delta in range(count):
        assert builder.append(delta, 1_500_000_000_000 + delta, b"k" if delta % 2 else None, b"v" * delta) is not None
    built = builder.build()
    if codec:  # the broker sets the offset of the wrapper to that of its last record
        struct.pack_into(">q", built, 0, base + count - 1)
    else:
        at = 0
        for delta in range(count):
            struct.pack_into(">q", built, at, base + delta)
            at += 12 + struct.unpack_from(">i", built, at + 8)[0]
    return bytes(built)


Outcome = tuple[list[tuple[Any, ...]], int, type[BaseException] | None]


def outcome(reader: Any) -> Outcome:
    """All records of a reader, its next offset, and the class of its error."""
    found: list[tuple[Any, ...]] = []
    error = None
    try:
        for record in reader:
            found.append(tuple(getattr(record, name) for name in (*FIELDS, *SIZES)))
            assert reader.next_fetch_offset > record.offset
    except Exception as raised:  # compared
        error = type(raised)
    assert (broken_offset(SimpleNamespace(_partition_records=reader)) is not None) == (error is not None)
    return found, reader.next_fetch_offset, error


def both(
    answer: bytes, offset: int = 0, *, aborted: list[tuple[int, int]] | None = None, committed: bool = False, checks_crcs: bool = True
) -> Outcome:
    """Decode in both ways, and return the same outcome."""
    at = TopicPartition("lines", 3)
    aiokafka = PartitionRecords(at, MemoryRecords(answer), aborted, offset, None, None, checks_crcs, int(committed))
    by_offset = sorted(aborted or [], key=lambda one: one[1])
    made = [
        RecordReader("lines", 3, answer, offset, codec=Codec, aborted=by_offset, read_committed=committed, checks_crcs=checks_crcs)
        for _ in range(2)
    ]
    one, wanted = outcome(made[0]), outcome(aiokafka)
    assert one == wanted
    if wanted[2] is None:
        assert [record.offset for record in made[1].take(2**31 - 1)] == [row[2] for row in wanted[0]]
        assert made[1].is_done
        assert made[1].next_fetch_offset == wanted[1]
    return wanted


@pytest.mark.guarantee("KS-10")
@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("flags", [0, LOG_APPEND_TIME])
def test_batches_with_gaps_are_the_same(codec: int, flags: int) -> None:
    """Given compacted batches and a fetch from within one, then records and positions are the same."""
    batches = [
        batch_of(100, [0, 1, 2, 3], codec=codec, flags=flags, seed=1),
        batch_of(104, [1, 5, 6], codec=codec, flags=flags, last=9, seed=2),
        batch_of(120, list(range(50)), codec=codec, flags=flags, last=60, seed=3),
    ]
    offsets = [*range(100, 104), 105, 109, 110, *range(120, 170)]
    for first, start in [(0, 100), (0, 102), (0, 103), (1, 104), (1, 107), (1, 111), (1, 113), (2, 120), (2, 169), (2, 179)]:
        found, position, error = both(b"".join(batches[first:]), start)
        assert ([row[2] for row in found], position, error) == ([offset for offset in offsets if offset >= start], 181, None)


def test_a_position_never_moves_back() -> None:
    """Given a batch below the position, which no broker sends, then its records are skipped."""
    reader = RecordReader("lines", 3, batch_of(100, [0, 1]) + batch_of(102, [0, 5]), 105, codec=Codec)
    assert [record.offset for record in reader] == [107]
    reader = RecordReader("lines", 3, batch_of(100, [0, 1]), 105, codec=Codec)
    assert (list(reader), reader.next_fetch_offset) == ([], 105)


@pytest.mark.parametrize("committed", [False, True])
def test_transactions_are_the_same(committed: bool) -> None:
    """Given open, aborted and committed transactions of three producers, then the same records are skipped."""
    answer = b"".join(
        [
            batch_of(0, [0, 1], flags=TRANSACTIONAL, producer=7),
            batch_of(2, [0], flags=TRANSACTIONAL, producer=8),
            batch_of(3, [0, 1]),
            batch_of(5, [0], flags=TRANSACTIONAL | CONTROL, producer=7, key=ABORT),
            batch_of(6, [0], flags=TRANSACTIONAL, producer=7),
            batch_of(7, [0], flags=TRANSACTIONAL | CONTROL, producer=8, key=COMMIT),
            batch_of(8, [0], flags=TRANSACTIONAL | CONTROL, producer=7, key=COMMIT),
            batch_of(9, [0, 1], flags=TRANSACTIONAL, producer=9, codec=4),
            batch_of(11, [0], flags=TRANSACTIONAL | CONTROL, producer=9, key=ABORT),
        ]
    )
    found, position, _ = both(answer, aborted=[(9, 9), (7, 0)], committed=committed)
    assert [row[2] for row in found] == ([2, 3, 4, 6] if committed else [0, 1, 2, 3, 4, 6, 9, 10])
    assert position == 12


@pytest.mark.parametrize("committed", [False, True])
def test_an_empty_control_batch_is_skipped(committed: bool) -> None:
    """Given markers that compaction has removed, then their batches are skipped, and end no other transaction, as in Java's client.

    aiokafka raises here, so it is no judge.
    """
    answer = b"".join(
        [
            batch_of(0, [], last=0, flags=TRANSACTIONAL | CONTROL, producer=7),
            batch_of(1, [0], flags=TRANSACTIONAL, producer=7),
            batch_of(2, [], last=0, flags=TRANSACTIONAL | CONTROL, producer=7),
            batch_of(3, [0], flags=TRANSACTIONAL, producer=7),
            batch_of(4, [0], flags=TRANSACTIONAL | CONTROL, producer=7, key=ABORT),
            batch_of(5, [0], flags=TRANSACTIONAL, producer=7),
            batch_of(6, [], last=0, flags=TRANSACTIONAL | CONTROL, producer=8),
        ]
    )
    reader = RecordReader("lines", 3, answer, 0, codec=Codec, aborted=[(7, 1)], read_committed=committed)
    assert [record.offset for record in reader] == ([5] if committed else [1, 3, 5])
    assert (reader.next_fetch_offset, reader.is_done) == (7, True)


@pytest.mark.parametrize("codec", [0, 1])
def test_the_format_v1_is_the_same(codec: int) -> None:
    start = 12 if codec else 10
    found, position, error = both(old_batch(10, 6, codec=codec), start)
    assert ([row[2] for row in found], position, error) == (list(range(start, 16)), 16, None)


def test_formats_may_follow_each_other() -> None:
    reader = RecordReader("lines", 3, old_batch(10, 6, codec=1) + batch_of(16, [0, 1]), 12, codec=Codec)
    assert [record.offset for record in reader] == [12, 13, 14, 15, 16, 17]


def test_a_record_of_the_format_v0_has_the_timestamp_minus_one() -> None:
    """aiokafka says None, but a timestamp of a translator's record is a number, and the protocol has -1 for none."""
    [record] = RecordReader("lines", 3, old_batch(10, 1, magic=0), 10, codec=Codec)
    assert (record.offset, record.timestamp, record.timestamp_type, record.value) == (10, -1, -1, b"")


def test_a_batch_that_is_cut_waits_for_the_next_fetch() -> None:
    whole, cut = batch_of(0, [0, 1, 2]), batch_of(3, [0, 1])
    for size in (1, 11, 12, 40, len(cut) - 1):
        assert both(whole + cut[:size])[1] == 3


@pytest.mark.parametrize("seed", range(40))
def test_damaged_batches_fail_at_the_same_place(seed: int) -> None:
    """Given a changed byte, then both fail behind the same records. With a valid checksum no code crashes."""
    draws = Random(seed)
    first, second = batch_of(0, [0, 1, 2], seed=seed), bytearray(batch_of(3, list(range(8)), seed=seed + 1))
    at = draws.randrange(61, len(second))
    second[at] ^= 1 << draws.randrange(8)
    found, position, error = both(first + bytes(second))
    assert (len(found), position, error) == (3, 3, errors.CorruptRecordException)
    at_least, offset, _ = RecordReader("lines", 3, first + signed(second), 0, codec=Codec), 0, None
    try:
        for record in at_least:
            assert record.offset >= offset
            offset = record.offset + 1
    except (errors.CorruptRecordException, UnicodeDecodeError):
        assert at_least.is_broken
        assert at_least.take(10) == []


def damage_header_name(built: bytearray) -> None:
    built[:] = built.replace(b"MARK", b"\xff\xfe\xfd\xfc")


def damage_length(built: bytearray) -> None:
    built[61] += 2


def damage_count(built: bytearray) -> None:
    struct.pack_into(">i", built, 57, 2)


@pytest.mark.parametrize(("damage", "read"), [(damage_header_name, 0), (damage_length, 0), (damage_count, 2)])
def test_wrong_records_fail_alike(damage: Callable[[bytearray], None], read: int) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, 0, 0, 1 << 20)
    for delta in range(3):
        builder.append(delta, 1, None, b"v", [("MARK", b"")])
    built = builder.build()
    damage(built)
    found, _, error = both(signed(built))
    assert len(found) == read
    assert error is not None


@pytest.mark.parametrize("damage", [damage_header_name, damage_length])
def test_the_end_of_a_broken_batch_is_known(damage: Callable[[bytearray], None]) -> None:
    """A fetch from within the batch would return it again, so reading can only go on behind it."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, 0, 0, 1 << 20)
    for delta in range(3):
        builder.append(delta, 1, None, b"v", [("MARK", b"")])
    built = builder.build()
    damage(built)
    for answer in (signed(built), bytes(built)):  # a valid and a wrong checksum
        reader = RecordReader("lines", 3, batch_of(0, [0]) + answer[:7] + b"\1" + answer[8:], 0, codec=Codec)
        with pytest.raises((errors.CorruptRecordException, UnicodeDecodeError)):
            reader.take(10)
        assert (reader.next_fetch_offset, reader.after_broken) == (1, 4)


def test_a_checksum_is_checked_unless_it_is_switched_off() -> None:
    built = bytearray(batch_of(0, [0, 1]))
    built[17] ^= 1
    assert both(bytes(built))[2] is errors.CorruptRecordException
    assert both(bytes(built), checks_crcs=False)[2] is None


def test_a_missing_codec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [batch_of(0, [0], codec=codec) for codec in (2, 3, 4)]
    monkeypatch.setattr("aiokafka.codec.cramjam", None)
    assert [both(answer)[2] for answer in answers] == [errors.UnsupportedCodecError] * 3


def test_a_record_has_all_attributes_and_can_be_pickled() -> None:
    record = FetchedRecord("lines", 1, 2**40, 5, 0, None, b"v", (("h", None),))
    assert pickle.loads(pickle.dumps(record)) == record
    assert hash(record) == hash(pickle.loads(pickle.dumps(record)))
    assert (record.serialized_key_size, record.serialized_value_size, record.checksum) == (-1, 1, None)
    assert "offset=1099511627776" in repr(record)


def test_an_unknown_version_of_the_client_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    assert not read_in_compiled_code(SimpleNamespace(_fetcher=SimpleNamespace()), lambda partition: None)
    assert "this version of aiokafka is unknown" in caplog.text


@pytest.mark.parametrize("way", ["compiled", "unknown version"])
async def test_a_spout_reads_the_same_in_each_way(kafka: str, new_topic: NewTopic, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=2)
    for partition in (0, 1):
        await produce(kafka, topic, range(100 * partition, 100 * partition + 100), partition=partition)
    if way == "unknown version":
        monkeypatch.setattr(compiled_fetch, "_OF_RESULT", ("_no_such_part",))
    kinds = set[str]()

    def number(record: Any) -> tuple[int]:
        kinds.add(type(record).__name__)
        return (int(record.value),)

    assert sorted(await all_of(settings(kafka, topic, translator=number))) == list(range(200))
    assert kinds == {"FetchedRecord" if way == "compiled" else "ConsumerRecord"}
