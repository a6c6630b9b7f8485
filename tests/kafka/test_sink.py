"""KafkaSink on a real broker: written records, and the acks of their tuples (KS-10)."""

from collections import Counter
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from engine import Config, Run
from engine.testing import Feeder
from tests.kafka.sink_play import fed, sink_config, until, values, write, written
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-10")


async def test_each_tuple_becomes_a_record_and_is_acked(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    feeder = fed(str(number) for number in range(5000))
    finished = await write(sink_config(kafka, topic), feeder)
    assert finished.errors == ()
    assert len(feeder.acked) == 5000
    assert Counter(await values(kafka, topic)) == Counter(str(number).encode() for number in range(5000))


async def test_the_key_chooses_the_partition_as_in_java(kafka: str, new_topic: NewTopic) -> None:
    """aiokafka's producer chooses the partitions of Java's client."""
    topic, other = await new_topic(), await new_topic()
    keys = [f"key-{number}" for number in range(200)]
    await write(sink_config(kafka, topic), fed([(key, key) for key in keys], "key", "value"))
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for key in keys:
            await producer.send_and_wait(other, key=key.encode(), value=b"")
    places = [{record.key: record.partition for record in await written(kafka, name)} for name in (topic, other)]
    assert places[0] == places[1]
    assert len(set(places[0].values())) == 4


async def test_records_of_one_key_keep_their_order(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    config = sink_config(kafka, topic, batch_bytes=500, max_in_flight=300)
    await write(config, fed([(f"key-{number % 7}", str(number)) for number in range(3000)], "key", "value"))
    of_key: dict[bytes, list[int]] = {}
    for record in await written(kafka, topic):
        of_key.setdefault(record.key, []).append(int(record.value))
    assert of_key == {f"key-{who}".encode(): list(range(who, 3000, 7)) for who in range(7)}


async def test_functions_make_the_record(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    config = sink_config(
        kafka,
        topic,
        key=lambda tup: tup["word"],
        value=lambda tup: str(tup["count"]),
        headers=lambda tup: [("trace", b"17"), ("trace", b"18"), ("null", None), ("", b"")],
        timestamp_ms=lambda tup: 1_700_000_000_000 + tup["count"],
        partition=lambda tup: tup["count"] % 4,
    )
    await write(config, fed([("cow", 3), ("moon", 6)], "word", "count"))
    found = {record.key: record for record in await written(kafka, topic)}
    assert {key: (record.value, record.partition, record.timestamp) for key, record in found.items()} == {
        b"cow": (b"3", 3, 1_700_000_000_003),
        b"moon": (b"6", 2, 1_700_000_000_006),
    }
    assert found[b"cow"].headers == (("trace", b"17"), ("trace", b"18"), ("null", None), ("", b""))


async def test_records_without_a_key_are_spread_over_all_partitions(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    await write(sink_config(kafka, topic, batch_bytes=1000), fed(str(number) for number in range(2000)))
    shares = Counter(record.partition for record in await written(kafka, topic))
    assert set(shares) == {0, 1, 2, 3}
    assert min(shares.values()) > 200


async def test_values_may_be_bytes_texts_and_none(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await write(sink_config(kafka, topic), fed([("a", b"\xff"), ("b", "ü"), ("c", None), (None, b""), (None, None)], "key", "value"))
    found = [(record.key, record.value) for record in await written(kafka, topic)]
    assert found == [(b"a", b"\xff"), (b"b", "ü".encode()), (b"c", None), (None, b""), (None, None)]


async def test_a_function_names_the_topic(kafka: str, new_topic: NewTopic) -> None:
    topics = [await new_topic(partitions=2) for _ in range(3)]
    config = sink_config(kafka, lambda tup: topics[tup["which"]], value=lambda tup: str(tup["number"]))
    feeder = fed([(number % 3, number) for number in range(300)], "which", "number")
    await write(config, feeder)
    assert len(feeder.acked) == 300
    for which, topic in enumerate(topics):
        assert Counter(await values(kafka, topic)) == Counter(str(number).encode() for number in range(which, 300, 3))


async def test_a_partitioner_can_be_given(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    seen: list[Any] = []

    def last(key: bytes | None, partitions: Any, available: Any) -> int:
        seen.append((key, list(partitions), list(available)))
        return partitions[-1]

    await write(sink_config(kafka, topic, partitioner=last), fed([("k", "v")], "key", "value"))
    assert [record.partition for record in await written(kafka, topic)] == [3]
    assert seen == [(b"k", [0, 1, 2, 3], [0, 1, 2, 3])]


async def test_several_tasks_write_side_by_side(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    feeder = fed(str(number) for number in range(2000))
    await write(sink_config(kafka, topic, linger_ms=2, compression="gzip"), feeder, tasks=3)
    assert Counter(await values(kafka, topic)) == Counter(str(number).encode() for number in range(2000))


@pytest.mark.parametrize("limit", ["max_in_flight", "max_in_flight_bytes"])
async def test_records_and_bytes_in_flight_stay_within_the_limit(limit: str, kafka: str, new_topic: NewTopic) -> None:
    """Given a limit of one, then each record is made after all earlier ones are written."""
    topic, feeder = await new_topic(partitions=1), Feeder("value")
    runs: list[Run] = []
    written_before: list[float] = []

    def value(tup: Any) -> str:
        written_before.append(sum(metric.value for metric in runs[0].snapshot().user_metrics if metric.name == "kafka_records_written"))
        return str(tup["value"])

    async def feed(run: Run) -> None:
        runs.append(run)
        for number in range(50):
            feeder.feed((number,))
        feeder.close()

    await write(sink_config(kafka, topic, value=value, **{limit: 1}), feeder, during=feed)
    assert written_before == list(range(50))
    assert await values(kafka, topic) == [str(number).encode() for number in range(50)]


async def test_ticks_are_not_written(kafka: str, new_topic: NewTopic) -> None:
    from engine import Topology, TopologyBuilder
    from engine.kafka import KafkaSink
    from engine.testing import run_topology_async

    topic = await new_topic()
    feeder = Feeder("value")

    def topology() -> Topology:
        builder = TopologyBuilder("ticked")
        builder.set_spout("fed", feeder)
        builder.set_bolt("sink", lambda: KafkaSink(sink_config(kafka, topic)), tick_tuple_freq_secs=0.01).shuffle_grouping("fed")
        return builder.build()

    async def wait_for_ticks(run: Run) -> None:
        await until(lambda: run.snapshot().components["sink"].executed >= 2)
        feeder.feed(("last",))
        feeder.close()

    finished = await run_topology_async(topology(), Config(), during=wait_for_ticks, limit_secs=60)
    assert finished.errors == ()
    assert await values(kafka, topic) == [b"last"]


async def test_untracked_records_are_flushed_at_the_end_of_the_run(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    feeder = Feeder("value")
    for number in range(3000):
        feeder.feed((str(number),), tracked=False)
    feeder.close()
    await write(sink_config(kafka, topic, linger_ms=200), feeder)
    assert len(await values(kafka, topic)) == 3000


async def test_a_run_that_is_stopped_leaves_each_record_written_or_unacked(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic()
    feeder = fed(str(number) for number in range(50_000))

    async def stop_in_the_middle(run: Run) -> None:
        await until(lambda: len(feeder.acked) > 1000)
        await run.stop()

    await write(sink_config(kafka, topic, max_in_flight=500), feeder, during=stop_in_the_middle)
    acked = {str(message_id - 1).encode() for message_id in feeder.acked}
    assert 1000 < len(acked) < 50_000
    assert acked <= set(await values(kafka, topic))
