"""Strange or broken records, and faulty translators: one record fails, or one clear error ends the run (KS-4, KS-8)."""

import asyncio
import re
import struct
from itertools import count
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from engine import ComponentError, Config, SpoutExhausted
from engine.errors import ConfigError
from engine.kafka import KafkaSpoutConfig
from engine.kafka.client import compiled_fetch
from engine.kafka.client.compiled_fetch import Codec
from tests.kafka.play import Notes, all_of, commit, committed, number, produce, settings
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-8")


def whole(record: Any) -> tuple[Any]:
    return ((record.key, record.value, record.headers),)


async def test_keys_values_and_headers_of_any_kind(kafka: str, new_topic: NewTopic) -> None:
    """Given None, empty and foreign bytes, and empty or repeated names, when they are read, then nothing is changed."""
    topic = await new_topic(partitions=1)
    headers = [("", b""), ("twice", b"\xff\xfe"), ("twice", None), ("Größe", "ü".encode("latin-1"))]
    sent = [(b"tombstone", None, []), (None, b"", []), (b"", b"", headers), (b"\xff", b"\x00" * 2000, [])]
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for key, value, named in sent:
            await producer.send_and_wait(topic, value, key, partition=0, headers=named)
    got = await all_of(settings(kafka, topic, translator=whole))
    assert [(key, value, list(named)) for key, value, named in got] == sent


async def test_a_record_larger_than_a_fetch_is_read(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, [b"x" * 200_000, b"y"])
    config = settings(kafka, topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000, translator=lambda record: (len(record.value),))
    assert await all_of(config) == [200_000, 1]


@pytest.mark.parametrize("codec", ["lz4", "snappy", "zstd"])
async def test_a_missing_codec_is_named(kafka: str, new_topic: NewTopic, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafka.codec.cramjam", None)
    topic = await new_topic(partitions=1, settings={"compression.type": codec})
    await produce(kafka, topic, range(3))
    with pytest.raises(ComponentError, match=r"(?s)UnsupportedCodecError.*Fix: .*pip install '.*\[kafka\]', or only cramjam"):
        await all_of(settings(kafka, topic))


@pytest.fixture
def foreign_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has producers write the header name MARK as bytes that are not UTF-8, as librdkafka's may."""

    class Foreign:
        def __init__(self, *sizes: Any, **options: Any) -> None:
            self._builder = DefaultRecordBatchBuilder(*sizes, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._builder, name)

        def build(self) -> bytearray:
            built = self._builder.build()
            built[:] = built.replace(b"MARK", b"\xff\xfe\xfd\xfc")
            struct.pack_into(">I", built, 17, calc_crc32c(bytes(built[21:])))
            return built

    monkeypatch.setattr("aiokafka.producer.message_accumulator.DefaultRecordBatchBuilder", Foreign)


async def test_an_undecodable_record_is_named_and_no_other_is_lost(kafka: str, new_topic: NewTopic, foreign_names: None) -> None:
    """Given a header name that is not UTF-8, then one error names its offset, and all earlier records are committed."""
    topic = await new_topic(partitions=2)
    async with AIOKafkaProducer(bootstrap_servers=kafka, linger_ms=20) as producer:
        batch = [producer.send(topic, str(n).encode(), partition=0, headers=[("MARK", b"")] if n == 3 else []) for n in range(6)]
        await asyncio.gather(*[await sent for sent in batch])
    await produce(kafka, topic, range(10, 300), partition=1)
    config, notes = settings(kafka, topic), Notes()
    with pytest.raises(ComponentError, match=rf"{topic}-0: the record at offset 3 cannot be decoded: UnicodeDecodeError") as raised:
        await all_of(config, notes)
    assert [value for value in notes.got if value < 10] == [0, 1, 2]
    assert (await committed(kafka, config.group or "", topic)).offset == 3
    await produce(kafka, topic, [6, 7])
    fix = re.search(r"`python -m engine (kafka reset .*)`", str(raised.value))
    assert fix is not None
    assert fix[1] == f"kafka reset --group {config.group} --topic {topic} --partition 0 --to 6"  # not 4, which is in the same batch
    await commit(kafka, config.group or "", topic, 6)
    assert [value for value in await all_of(config) if value < 10] == [6, 7]


@pytest.mark.parametrize("way", ["compiled", "aiokafka"])
async def test_a_record_damaged_in_transit_is_fetched_again(
    kafka: str, new_topic: NewTopic, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given polls that fail after they took records of another partition, when they are repeated, then none is missing."""
    topic = await new_topic(partitions=2)
    for partition in (0, 1):
        await produce(kafka, topic, range(100 * partition, 100 * partition + 100), partition=partition)
    failures = iter(range(3))
    if way == "aiokafka":
        monkeypatch.setattr(compiled_fetch, "_OF_RESULT", ("_no_such_part",))
        usual, seen = PartitionRecords.__next__, set[int]()

        def damaged(self: Any) -> Any:
            record = usual(self)
            seen.add(record.partition)
            if len(seen) == 2 and record.offset == 50 and next(failures, None) is not None:
                self._records_iterator.close()
                raise CorruptRecordException("Invalid CRC")
            return record

        monkeypatch.setattr(PartitionRecords, "__next__", damaged)
    else:
        calls = count(1)
        monkeypatch.setattr(Codec, "crc32c", lambda view: calc_crc32c(view) ^ (next(calls) > 1 and next(failures, None) is not None))
    assert sorted(await all_of(settings(kafka, topic))) == list(range(200))
    assert next(failures, None) is None


class Wordless(BaseException):
    """Error that no `except Exception` catches."""


def raising(error: BaseException) -> Any:
    def translate(record: Any) -> Any:
        raise error

    return translate


async def promised(record: Any) -> tuple[int]:
    return number(record)


def yielding(record: Any) -> Any:
    yield int(record.value)


MISBEHAVING = {
    "cancelled": raising(asyncio.CancelledError()),
    "stops": raising(StopIteration()),
    "closes": raising(GeneratorExit()),
    "exhausted": raising(SpoutExhausted()),
    "a coroutine": lambda record: promised(record),
    "a generator": lambda record: yielding(record),
}


@pytest.mark.parametrize("way", MISBEHAVING)
@pytest.mark.filterwarnings("error")
async def test_a_failing_translator_fails_only_its_record(kafka: str, new_topic: NewTopic, way: str) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(6))
    config = settings(
        kafka,
        topic,
        translator=lambda record: MISBEHAVING[way](record) if record.offset == 2 else number(record),
        max_retries=2,
        on_give_up="drop",
    )
    assert await all_of(config, engine_config=Config(on_error="fail")) == [0, 1, 3, 4, 5]
    assert (await committed(kafka, config.group or "", topic)).offset == 6


@pytest.mark.parametrize("error", [Wordless("no words"), SystemExit(3)])
async def test_a_base_exception_of_a_translator_ends_the_run_without_a_commit(
    kafka: str, new_topic: NewTopic, error: BaseException
) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(6))
    config = settings(kafka, topic, translator=lambda record: raising(error)(record) if record.offset == 2 else number(record))
    with pytest.raises(ComponentError, match=rf"(?s)raised {type(error).__name__}.*Fix: Raise a subclass of Exception"):
        await all_of(config)
    assert (await committed(kafka, config.group or "", topic)).offset <= 2


@pytest.mark.parametrize("translator", [promised, yielding])
def test_a_translator_has_to_be_a_plain_function(translator: Any) -> None:
    with pytest.raises(ConfigError, match=r"translator .* must return values.*def, without await and yield"):
        KafkaSpoutConfig(brokers="h:1", topics="t", group="g", translator=translator)


async def test_a_translator_may_return_large_values(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(3))
    got = await all_of(settings(kafka, topic, translator=lambda record: (record.value * 5_000_000,)))
    assert [len(value) for value in got] == [5_000_000] * 3
