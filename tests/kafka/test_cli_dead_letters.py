"""`kafka dead-letters` and `replay` on a real broker."""

import asyncio
import random
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from engine.errors import Failure, FatalError, UsageError
from engine.kafka.client.admin_client import ClusterConfig, connected
from engine.kafka.dead_letters.dead_letter_list import POLL_RECORDS
from engine.kafka.dead_letters.replay import DeadLetterSender, Outcome, ReplayPlan, replay
from engine.kafka.dead_letters.replay_member import ReplayMember
from tests.kafka.play import produce
from tests.kafka.tools import Captured, dead_letter_of, lines, printed, records_of, shown, write_letters, write_many
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_fixtures import NewTopic


async def letters(kafka: str, new_topic: NewTopic, count: int = 3) -> tuple[str, list[str]]:
    """Return a topic that has dead letters, and the options of commands that name them."""
    topic, dead = await new_topic(partitions=2), await new_topic(partitions=1)
    await write_letters(kafka, dead, [dead_letter_of(topic, number, partition=1) for number in range(count)])
    return topic, ["--brokers", kafka, "--topic", dead]


def values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


async def test_the_list(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, where = await letters(kafka, new_topic)
    out = (await printed(capsys, "dead-letters", *where))[0].splitlines()
    assert out[0].split() == ["letter", "given", "up", "at", "from", "component", "reason", "error", "key", "value", "sent", "attempts"]
    assert out[3].split()[0] == "0@2"
    assert out[3].split()[3:] == [f"{topic}-1@2", "parse", "error", "KeyError:", "2", "k2", "v2", "no", "2"]
    assert [one["letter"] for one in await lines(capsys, "dead-letters", *where, "--limit", "2")] == ["0@1", "0@2"]
    assert [one["letter"] for one in await lines(capsys, "dead-letters", *where, "--only", "error=KeyError: 1")] == ["0@1"]
    assert await lines(capsys, "dead-letters", *where, "--only", "error=KeyError", "--only", "reason=timeout") == []
    assert "Did you mean 'reason'?" in (await printed(capsys, "dead-letters", *where, "--only", "reasn=error", status=2))[1]


async def test_one_letter(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, where = await letters(kafka, new_topic)
    out = (await printed(capsys, "dead-letters", *where, "--show", "0@1"))[0]
    for line in (
        f"from          {topic}-1@1, of ",
        "header trace  b'\\xff'",
        "reason        'parse' (task 3) raised: KeyError: 1",
        "key           k1",
    ):
        assert line in out
    assert out.endswith("value         2 bytes\n  v1\n")
    found = await shown(capsys, "dead-letters", *where, "--show", "0@1")
    assert (found["value"], found["headers"]) == ("v1", [["trace", "t"], ["trace", {"$bytes": "/w=="}], ["null", None]])
    assert "is not the name of a letter" in (await printed(capsys, "dead-letters", *where, "--show", "1", status=2))[1]
    assert "has no record at 0@3" in (await printed(capsys, "dead-letters", *where, "--show", "0@3", status=2))[1]


async def test_control_characters_of_a_letter_are_escaped(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    evil = "\x1b[2J\r\nowned"
    dead = await new_topic(partitions=1)
    hostile = dead_letter_of(
        evil,
        0,
        key=evil.encode(),
        value=evil.encode(),
        headers=((evil, evil.encode()),),
        topology=evil,
        failure=Failure("error", evil, 0, evil),
    )
    await write_letters(kafka, dead, [hostile])
    await produce(kafka, dead, [b"no letter"])
    for options in ([], ["--show", "0@0"], ["--json"]):
        out, err = await printed(capsys, "dead-letters", "--brokers", kafka, "--topic", dead, *options)
        assert not {"\x1b", "\r"} & set(out + err)
    assert "Note: 1 record in the topic cannot be read as a dead letter" in err
    assert (await shown(capsys, "replay", "--brokers", kafka, "--topic", dead, status=1))["others"] == 1


async def test_replay_sends_each_letter_once(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, where = await letters(kafka, new_topic)
    assert (await printed(capsys, "replay", *where, "--dry-run"))[0] == f"to send: 3\n  3 to {topic}\n"
    assert await records_of(kafka, topic) == []
    assert "has no commits yet" in (await printed(capsys, "offsets", "--brokers", kafka, "--group", f"{where[-1]}.replay", status=2))[1]
    assert (await printed(capsys, "replay", *where))[0] == f"sent: 3\n  3 to {topic}\n"
    await write_letters(kafka, where[-1], [dead_letter_of(topic, 3)])
    assert [one["sent"] for one in await lines(capsys, "dead-letters", *where)] == [True, True, True, False]
    assert (await shown(capsys, "replay", *where))["sent"] == {topic: 1}
    assert (await shown(capsys, "replay", *where))["sent"] == {}
    found = await records_of(kafka, topic)
    assert [(record.partition, record.key, record.value) for record in found] == [
        (0, b"k3", b"v3"),
        *((1, f"k{number}".encode(), f"v{number}".encode()) for number in range(3)),
    ]
    assert {record.headers for record in found} == {(("trace", b"t"), ("trace", b"\xff"), ("null", None))}


async def test_letters_outside_the_filter_are_left_for_another_replay(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, where = await letters(kafka, new_topic, 5)
    one = await shown(capsys, "replay", *where, "--only", "letter=0@1", "--only", "letter=0@3")
    assert (one["sent"], one["not_chosen"]) == ({topic: 2}, 3)
    two = await shown(capsys, "replay", *where, "--limit", "1")
    assert (two["sent"], two["sent_before"]) == ({topic: 1}, 0)
    three = await shown(capsys, "replay", *where)
    assert (three["sent"], three["sent_before"]) == ({topic: 2}, 2)
    assert values(await records_of(kafka, topic)) == [b"v1", b"v3", b"v0", b"v2", b"v4"]


async def test_a_replay_to_another_topic_has_its_own_group(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    _, where = await letters(kafka, new_topic)
    other = await new_topic(partitions=3)
    await printed(capsys, "replay", *where)
    assert (await shown(capsys, "replay", *where, "--to", other, "--group", f"{other}-group"))["sent"] == {other: 3}
    assert sorted(values(await records_of(kafka, other))) == [b"v0", b"v1", b"v2"]
    assert "is the dead-letter topic itself" in (await printed(capsys, "replay", *where, "--to", where[-1], status=2))[1]


async def test_letters_that_cannot_be_sent_are_reported_and_kept(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    small, dead = await new_topic(partitions=1, settings={"max.message.bytes": "500"}), await new_topic(partitions=1)
    await write_letters(
        kafka,
        dead,
        [
            dead_letter_of(small, 0, value=b"x" * 600),
            dead_letter_of(small, 1),
            dead_letter_of("nowhere", 2),
            dead_letter_of(small, 3).cut(),
            dead_letter_of(small, 4, key=None, value=b"", headers=()),
            dead_letter_of(small, 5, value=b"y" * 300),
        ],
    )
    where = ["--brokers", kafka, "--topic", dead]
    found = await shown(capsys, "replay", *where, status=1)
    assert found["sent"] == {small: 3}
    refused, cut, nowhere = sorted(found["left"].items())
    assert (refused[1], cut[1], nowhere) == (1, 1, ("topic 'nowhere' does not exist", 1))
    assert "MessageSizeTooLargeError" in refused[0]
    again = await shown(capsys, "replay", *where, status=1)
    assert (again["sent"], again["sent_before"], sum(again["left"].values())) == ({}, 3, 3)
    assert values(await records_of(kafka, small)) == [b"v1", b"", b"y" * 300]


async def test_refused_letters_among_many(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    small, dead = await new_topic(partitions=1, settings={"max.message.bytes": "400"}), await new_topic(partitions=1)
    await write_many(kafka, dead, [dead_letter_of(small, number, value=b"x" * (500 if number % 50 == 0 else 100)) for number in range(300)])
    found = await shown(capsys, "replay", "--brokers", kafka, "--topic", dead, status=1)
    assert (found["sent"], list(found["left"].values())) == ({small: 294}, [6])
    again = await shown(capsys, "replay", "--brokers", kafka, "--topic", dead, status=1)
    assert (again["sent"], again["sent_before"], list(again["left"].values())) == ({}, 294, [6])
    assert len(await records_of(kafka, small)) == 294


async def test_two_replays_at_once_do_not_send_the_same(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, where = await letters(kafka, new_topic)
    async with AIOKafkaConsumer(where[-1], bootstrap_servers=kafka, group_id=f"{where[-1]}.replay", auto_offset_reset="earliest") as other:
        await asyncio.wait_for(other.getone(), PATIENCE_SECS)
        err = (await printed(capsys, "replay", *where, status=2))[1]
        assert "has a member: " in err
        assert (await shown(capsys, "replay", *where, "--dry-run"))["sent"] == {topic: 3}
    assert await records_of(kafka, topic) == []


async def test_many_letters(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, dead = await new_topic(partitions=4), await new_topic(partitions=2)
    made = [dead_letter_of(topic, number, partition=number % 4) for number in range(3000)]
    await write_many(kafka, dead, made)
    assert (await shown(capsys, "replay", "--brokers", kafka, "--topic", dead))["sent"] == {topic: 3000}
    found = await records_of(kafka, topic)
    assert sorted(values(found)) == sorted(one.value for one in made if one.value is not None)
    assert all(int(record.key[1:]) % 4 == record.partition for record in found)


async def test_an_interrupted_replay_commits_the_sent_letters(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, where = await letters(kafka, new_topic)
    send = DeadLetterSender.send_letters

    async def broken(self: DeadLetterSender, given: Any, **options: Any) -> list[Outcome]:
        return [*await send(self, given[:2], **options), Outcome(error=FatalError("the broker has burnt down"))]

    async with connected(ClusterConfig(brokers=kafka)) as link:
        plan = ReplayPlan(topic=where[-1], group=f"{topic}-group")
        with monkeypatch.context() as patch:
            patch.setattr(DeadLetterSender, "send_letters", broken)
            with pytest.raises(FatalError, match="burnt down"):
                await replay(link, plan, lambda number: None, print)
        assert (await replay(link, plan, lambda number: None, print)).sent == {topic: 1}
    assert values(await records_of(kafka, topic)) == [b"v0", b"v1", b"v2"]


async def test_a_replay_killed_before_its_commit_repeats_only_the_last_letters(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    await write_many(kafka, dead, [dead_letter_of(topic, number) for number in range(2 * POLL_RECORDS)])
    commits = 0
    commit = ReplayMember.commit_progress

    async def die(self: ReplayMember, *noted: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            raise FatalError("the broker has burnt down")
        await commit(self, *noted)

    async with connected(ClusterConfig(brokers=kafka)) as link:
        plan = ReplayPlan(topic=dead, group=f"{dead}.group")
        with monkeypatch.context() as patch:
            patch.setattr(ReplayMember, "commit_progress", die)
            with pytest.raises(FatalError, match="burnt down"):
                await replay(link, plan, lambda number: None, print)
        sent = (await replay(link, plan, lambda number: None, print)).sent.total()
    found = values(await records_of(kafka, topic))
    assert set(found) == {f"v{number}".encode() for number in range(2 * POLL_RECORDS)}
    assert 0 < len(found) - 2 * POLL_RECORDS <= POLL_RECORDS
    assert sent < 2 * POLL_RECORDS


async def test_a_filter_with_too_scattered_letters_is_refused_before_any_is_sent(
    kafka: str, new_topic: NewTopic, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kafka.dead_letters.replay_member.MOST_METADATA_BYTES", 1024)
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    count, draws = 7_500, random.Random(7)  # half of them by chance: of so many no commit can hold all
    await write_many(kafka, dead, [dead_letter_of(topic, number, topology=f"t{draws.randrange(2)}") for number in range(count)])
    where = ["--brokers", kafka, "--topic", dead]
    assert "too scattered" in (await printed(capsys, "replay", *where, "--only", "topology=t1", status=2))[1]
    await printed(capsys, "replay", *where)
    assert sorted(values(await records_of(kafka, topic))) == sorted(f"v{number}".encode() for number in range(count))


async def test_a_new_member_ends_a_replay_between_two_letters(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    await write_many(kafka, dead, [dead_letter_of(topic, number) for number in range(POLL_RECORDS + 100)])
    other = AIOKafkaConsumer(dead, bootstrap_servers=kafka, group_id=f"{dead}.group", enable_auto_commit=False)
    send, revoked, has_come = DeadLetterSender.send_letters, ReplayMember.on_partitions_revoked, asyncio.Event()
    newcomers: list[asyncio.Task[None]] = []

    async def send_when_it_comes(self: DeadLetterSender, given: Any, **options: Any) -> list[Outcome]:
        newcomers.append(asyncio.create_task(other.start()))
        await asyncio.wait_for(has_come.wait(), PATIENCE_SECS)
        return await send(self, given, **options)

    async def tell_it_comes(self: ReplayMember, partitions: Any) -> None:
        if newcomers:
            has_come.set()
        await revoked(self, partitions)

    async with connected(ClusterConfig(brokers=kafka)) as link:
        plan = ReplayPlan(topic=dead, group=f"{dead}.group")
        with monkeypatch.context() as patch:
            patch.setattr(DeadLetterSender, "send_letters", send_when_it_comes)
            patch.setattr(ReplayMember, "on_partitions_revoked", tell_it_comes)
            with pytest.raises(UsageError, match="has another member"):
                await replay(link, plan, lambda number: None, print)
        await asyncio.gather(*newcomers)
        await other.stop()
        result = await replay(link, plan, lambda number: None, print)
    assert 0 < result.sent.total() < POLL_RECORDS + 100
    assert values(await records_of(kafka, topic)) == [f"v{number}".encode() for number in range(POLL_RECORDS + 100)]
