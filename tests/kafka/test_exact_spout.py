"""An exact KafkaSpout: the checkpoints have its positions, and the group follows them (KS-16, KS-17). Real brokers."""

import asyncio
import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

import engine
from engine.errors import TopologyError
from engine.kafka.source.acked_set import decode, encode
from tests.kafka.exact_play import (
    NAME,
    QUICK,
    SPOUT,
    Told,
    count_all,
    counting,
    engine_config,
    filled,
    once,
    stored_positions,
    until,
)
from tests.kafka.play import all_of, commit, committed, gauges, heard, produce, settings, until_committed
from tests.kafka.tools import printed
from tests.servers.kafka_admin import add_partitions, create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic

# Exactness


@pytest.mark.guarantee("KS-16", "EO-1")
@pytest.mark.parametrize("tasks", [1, 2])
async def test_each_run_continues_behind_the_last_record_of_the_run_before(
    kafka: str, new_topic: NewTopic, tmp_path: Path, tasks: int
) -> None:
    topic = await filled(new_topic, kafka, 300)
    config = settings(kafka, topic)
    assert await count_all(config, tmp_path, tasks=tasks) == once(300)
    for partition in range(3):
        await produce(kafka, topic, range(300 + partition, 360, 3), partition=partition)
    told = Told()
    assert await count_all(config, tmp_path, told, tasks=3 - tasks) == once(360)
    assert set(told.calls) == set(range(300, 360)), "records of the first run must not be read again"
    positions = await stored_positions(tmp_path)
    assert {name: at["offset"] for name, at in positions.items()} == {f"{topic}-{number}": 120 for number in range(3)}


@pytest.mark.guarantee("KS-16", "EO-6")
async def test_failed_rows_are_repeated_and_given_up_by_the_config_of_the_engine(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    """Given a row that fails twice and one that always fails, then every other row counts once, and the spout's own retries do nothing."""
    topic = await filled(new_topic, kafka, 200)
    told = Told(lambda value, call: value == 150 or (value == 20 and call < 3))
    config = settings(kafka, topic, max_retries=50, on_give_up="drop", stop_at_end=True)
    async with engine.run(counting(config, told), engine_config(tmp_path)) as run:
        texts = heard(run)
        async with asyncio.timeout(60):
            await run.completed()
    assert told.counts == once(200) - Counter([150])
    assert 3 <= told.calls[150] <= 5, "a call whose verdict a rollback has overtaken is not counted"
    [text] = [text for text in texts if "GaveUp" in text]
    assert "(150,) failed in 3 passes" in text
    assert run.snapshot().components[SPOUT].failed >= 4
    assert await count_all(config, tmp_path) == once(200) - Counter([150])


@pytest.mark.guarantee("KS-16", "KS-8")
@pytest.mark.parametrize("order", ["go_on", "stop_partition"])
async def test_records_that_cannot_be_translated_become_dead_letters_and_are_passed(
    kafka: str, new_topic: NewTopic, tmp_path: Path, order: str
) -> None:
    topic, letters = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, topic, [0, 1, "x", 2, 3])
    config = settings(kafka, topic, dead_letter_topic=letters, max_retries=1, on_failure=order)
    assert await count_all(config, tmp_path) == once(4)
    assert (await stored_positions(tmp_path))[f"{topic}-0"]["offset"] == 5
    values = dataclasses.replace(config, topics=letters, dead_letter_topic=None, on_give_up="drop", translator=_text, group="other")
    assert await all_of(values) == [b"x"]


def _text(record: Any) -> tuple[bytes]:
    return (record.value,)


@pytest.mark.guarantee("KS-16", "KS-8")
async def test_a_record_that_waits_for_its_retry_holds_no_other_record(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    """Given a record that the first run can never translate, when a second run can, then it counts, and no other record counts again."""
    topic, told = await new_topic(partitions=1), Told()
    await produce(kafka, topic, [0, 1, -2, 3, 4, 5])
    config = settings(kafka, topic, translator=_unsigned, retry_max_ms=20)
    async with engine.run(counting(config, told), engine_config(tmp_path)) as run:
        await until(lambda: told.counts == Counter([0, 1, 3, 4, 5]), run)
        await until(lambda: run.snapshot().entry(engine.CheckpointEntry).value.last_keys > 0, run)
        await until_committed(kafka, config.group or "", topic, 2)
        await run.stop()
    stored = (await stored_positions(tmp_path))[f"{topic}-0"]
    assert (stored["offset"], stored["done"]) == (2, [3, 6])
    again = Told()
    assert await count_all(dataclasses.replace(config, translator=_signed), tmp_path, again) == Counter([0, 1, -2, 3, 4, 5])
    assert set(again.calls) == {-2}


def _unsigned(record: Any) -> tuple[int]:
    if int(record.value) < 0:
        raise ValueError("negative")
    return (int(record.value),)


def _signed(record: Any) -> tuple[int]:
    return (int(record.value),)


@pytest.mark.guarantee("KS-16", "KS-15")
async def test_positions_pass_markers_and_aborted_records(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await new_topic(partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=f"{topic}-tx") as producer:
        for values, is_kept in (range(10), True), (range(900, 910), False), (range(10, 20), True):
            await producer.begin_transaction()
            for value in values:
                await producer.send(topic, str(value).encode(), partition=0)
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())
    config = settings(kafka, topic, isolation_level="read_committed")
    assert await count_all(config, tmp_path) == once(20)
    assert (await stored_positions(tmp_path))[f"{topic}-0"]["offset"] == 33, "30 records and 3 markers"
    assert await count_all(config, tmp_path) == once(20)


@pytest.mark.guarantee("KS-16")
async def test_a_spout_that_tracks_nothing_is_not_exact(kafka: str, tmp_path: Path) -> None:
    exactly = engine_config(tmp_path, processing_guarantee="exactly_once")
    for guarantee in "at_most_once", "no_guarantee":
        with pytest.raises(TopologyError, match=r"spout 'kafka'.*needs a source that can rewind"):
            async with engine.run(counting(settings(kafka, "any", guarantee=guarantee), Told()), exactly):
                pass


@pytest.mark.guarantee("KS-16", "EO-7")
async def test_with_at_least_once_the_group_has_the_positions(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await filled(new_topic, kafka, 30)
    config = settings(kafka, topic)
    assert await count_all(config, tmp_path, processing_guarantee="at_least_once") == once(30)
    at = await committed(kafka, config.group or "", topic)
    note = decode(at.metadata)
    assert note is not None
    assert (at.offset, note.is_copy) == (10, False)


# Partitions


@pytest.mark.guarantee("KS-16", "EO-8")
@pytest.mark.parametrize("start", ["earliest", "latest"])
async def test_new_partitions_are_read_from_their_first_record(kafka: str, new_topic: NewTopic, tmp_path: Path, start: str) -> None:
    topic, told = await new_topic(partitions=2), Told()
    config = settings(kafka, topic, start=start, **QUICK)
    async with engine.run(counting(config, told, 2), engine_config(tmp_path)) as run:
        await until(lambda: len(gauges(run, "kafka_position")) == 2, run)
        await produce(kafka, topic, range(10), partition=0)
        await until(lambda: told.counts == once(10), run)
        await add_partitions(kafka, topic, 3)
        await produce(kafka, topic, range(10, 20), partition=2)
        await until(lambda: told.counts == once(20), run)
        await run.drain()
    await add_partitions(kafka, topic, 4)  # while the topology is down
    await produce(kafka, topic, range(20, 30), partition=3)
    assert await count_all(config, tmp_path, tasks=3) == once(30)


@pytest.mark.guarantee("KS-16", "KS-5")
async def test_a_late_start_is_stored_before_the_first_record_is_emitted(
    kafka: str, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given start="latest" and a run that ends before any row is committed, then the next run reads the rows of the time in between."""
    topic, told = await new_topic(partitions=1), Told(lambda value, call: True)
    await produce(kafka, topic, range(100, 105))
    config = settings(kafka, topic, start="latest", group=None, membership="assign")
    async with engine.run(counting(config, told), engine_config(tmp_path)) as run:
        await until(lambda: len(gauges(run, "kafka_position")) == 1, run)
        await produce(kafka, topic, range(5))
        await until(lambda: told.calls[4] > 0, run)
        await run.stop()
    assert await count_all(config, tmp_path) == once(5)


@pytest.mark.guarantee("KS-16")
async def test_topics_of_a_pattern_are_divided_and_found_later(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    first = await filled(new_topic, kafka, 30)
    told = Told()
    config = settings(kafka, "", pattern=f"{first}.*", start="latest", **QUICK)
    async with engine.run(counting(config, told, 2), engine_config(tmp_path)) as run:
        await until(lambda: len(gauges(run, "kafka_position")) == 3, run)
        second = await create_topic(kafka, f"{first}-second", 2)
        for partition in 0, 1:
            await produce(kafka, second, range(30 + partition, 40, 2), partition=partition)
        await produce(kafka, first, range(40, 45))
        await until(lambda: told.counts == once(30, 45), run)
        await run.drain()
    assert await count_all(config, tmp_path) == once(30, 45)


# The group


@pytest.mark.guarantee("KS-17", "KS-7")
async def test_the_first_start_begins_at_the_group_and_skips_its_acked_set(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    config = settings(kafka, topic)
    await commit(kafka, config.group or "", topic, 5, encode(NAME, 5, [7, 9, 15, 18], 4096)[0])
    expected = once(20) - once(5) - once(7, 9) - once(15, 18)
    told = Told(lambda value, call: value == 10 and call == 1)  # a rollback, after which the set must still be skipped
    assert await count_all(config, tmp_path, told) == expected
    assert await count_all(config, tmp_path) == expected


@pytest.mark.guarantee("KS-17")
async def test_the_group_follows_the_checkpoints_and_names_their_owner(
    kafka: str, new_topic: NewTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = await filled(new_topic, kafka, 30)
    config = settings(kafka, topic)
    group = config.group or ""
    assert await count_all(config, tmp_path, tasks=2) == once(30)
    for partition in range(3):
        at = await committed(kafka, group, topic, partition)
        note = decode(at.metadata)
        assert note is not None
        assert (at.offset, note.topology, note.spout, note.is_copy) == (10, NAME, SPOUT, True)
    where = ["reset", "--brokers", kafka, "--group", group, "--topic", topic, "--to", "earliest", "--yes"]
    err = (await printed(capsys, *where, status=2))[1]
    assert "topology 'exact' keeps the positions of its spout 'kafka' in its state provider" in err
    assert f"python -m engine positions set URL exact kafka {topic}-0=OFFSET" in err
    await commit(kafka, group, topic, 0, at.metadata)
    assert await count_all(config, tmp_path) == once(30), "the ledger decides, not the group"


@pytest.mark.guarantee("KS-17")
async def test_without_its_state_a_topology_begins_anew_and_not_at_its_copy_in_the_group(
    kafka: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = await filled(new_topic, kafka, 30)
    config = settings(kafka, topic)
    assert await count_all(config, tmp_path) == once(30)
    (tmp_path / "anew").mkdir()
    assert await count_all(config, tmp_path / "anew") == once(30)


# Servers


@pytest.mark.guarantee("KS-16", "KS-14")
async def test_a_broker_that_restarts_has_no_effect_on_the_counts(own_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka, told = own_broker.bootstrap, Told(lambda value, call: value % 50 == 7 and call == 1)
    topic = await create_topic(kafka, "lines", 2)
    config = settings(kafka, topic, heartbeat_interval_ms=300, request_timeout_ms=2000, **QUICK)
    async with engine.run(counting(config, told, 2), engine_config(tmp_path)) as run:
        for number in range(3):
            for partition in 0, 1:
                await produce(kafka, topic, range(100 * number + partition, 100 * number + 100, 2), partition=partition)
            await until(lambda number=number: len(told.calls) > 100 * number, run)
            if number == 1:
                own_broker.kill()
            else:
                await asyncio.to_thread(own_broker.stop)
            await until(lambda: any("Kafka" in wait.what for wait in run.snapshot().waits), run)
            await asyncio.to_thread(own_broker.start)
        await until(lambda: told.counts == once(300), run)
        await until_committed(kafka, config.group or "", topic, 150)
        await run.drain()
    assert await count_all(config, tmp_path) == once(300)


@pytest.mark.guarantee("KS-16", "KS-14")
@pytest.mark.deep
@pytest.mark.timeout(300)
async def test_a_broker_that_is_away_for_100_seconds_has_no_effect_on_the_counts(own_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka, told = own_broker.bootstrap, Told()
    topic = await create_topic(kafka, "lines", 1)
    config = settings(kafka, topic, heartbeat_interval_ms=300, request_timeout_ms=2000)
    async with engine.run(counting(config, told), engine_config(tmp_path)) as run:
        await produce(kafka, topic, range(100))
        await until(lambda: told.counts == once(100), run)
        await asyncio.to_thread(own_broker.stop)
        await asyncio.sleep(100)
        assert any("Kafka" in wait.what for wait in run.snapshot().waits)
        await asyncio.to_thread(own_broker.start)
        await produce(kafka, topic, range(100, 200))
        await until(lambda: told.counts == once(200), run)
        await run.drain()
    assert await count_all(config, tmp_path) == once(200)


@pytest.mark.guarantee("KS-16")
async def test_a_second_process_takes_over_and_the_first_one_ends(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    """Two runs of one topology with one group: the ledger lets one of them commit, whatever the group would say."""
    topic = await filled(new_topic, kafka, 60)
    config, told = settings(kafka, topic), Told()
    async with engine.run(counting(config, told), engine_config(tmp_path)) as run:
        await until(lambda: told.counts == once(60), run)
        with pytest.raises(Exception, match=r"another|lock|in use"):
            await count_all(config, tmp_path)
        await run.drain()
    assert await count_all(config, tmp_path) == once(60)


@pytest.mark.guarantee("KS-1")
async def test_a_topology_without_state_reads_as_a_member_of_its_group(kafka: str, new_topic: NewTopic) -> None:
    topic = await filled(new_topic, kafka, 30)
    config = settings(kafka, topic)
    assert sorted(await all_of(config)) == list(range(30))
    note = decode((await committed(kafka, config.group or "", topic)).metadata)
    assert note is not None
    assert not note.is_copy
