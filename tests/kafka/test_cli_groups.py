"""`kafka lag`, `offsets` and `reset` on a real broker, and what is said where a cluster cannot be asked."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from engine.cli.main import run_command_line
from engine.kafka.source import acked_set
from tests.kafka.play import commit, committed, produce
from tests.kafka.tools import Captured, printed, shown
from tests.patience import PATIENCE_SECS
from tests.project.sources import ROOT
from tests.servers.kafka_admin import create_topic, delete_topic, fresh_name
from tests.servers.kafka_fixtures import NewBroker, NewTopic
from tests.servers.kafka_security import KafkaSecurity


async def words(kafka: str, new_topic: NewTopic) -> tuple[str, str]:
    """Topic with ten records in partition 0, and a group that committed four and acked three more."""
    topic, group = await new_topic(partitions=2), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 4, acked_set.encode("word count", 4, [5, 7, 8, 9], 4096)[0])
    return topic, group


async def test_lag(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await words(kafka, new_topic)
    out = (await printed(capsys, "lag", "--brokers", kafka, "--group", group))[0].splitlines()
    assert out[0] == f"group {group!r}: Empty, 0 members"
    assert [line.split() for line in out[2:]] == [
        ["topic", "partition", "topology", "client", "member", "host", "committed", "end", "lag", "acked"],
        [topic, "0", "word", "count", "–", "–", "–", "4", "10", "6", "3"],
        [topic, "1", "–", "–", "–", "–", "–", "0", "–", "–"],
        ["total", "6", "3"],
    ]


async def test_lag_of_a_group_that_is_read(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await words(kafka, new_topic)
    name = "\x1b[2Jhost"
    async with AIOKafkaConsumer(topic, bootstrap_servers=kafka, group_id=group, client_id=name, enable_auto_commit=False) as consumer:
        await asyncio.wait_for(consumer.getone(), PATIENCE_SECS)
        found = await shown(capsys, "lag", "--brokers", kafka, "--group", group, "--topic", topic)
        assert (found["state"], found["members"], found["lag"]) == ("Stable", 1, 6)
        first, second = found["partitions"]
        assert first["member_id"].startswith(f"{first['client_id']}-")
        assert (first["host"], second["member_id"]) == ("127.0.0.1", first["member_id"])
        out = (await printed(capsys, "lag", "--brokers", kafka, "--group", group))[0]
        assert r"'\x1b[2Jhost'" in out
        assert "\x1b" not in out
        err = (await printed(capsys, "reset", "--brokers", kafka, "--group", group, "--topic", topic, "--to", "earliest", status=2))[1]
        assert err.startswith(f"Error: group {group!r} is Stable, with 1 members")


async def test_offsets(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await words(kafka, new_topic)
    await commit(kafka, group, topic, 3, "offset of flink", partition=1)
    out = (await printed(capsys, "offsets", "--brokers", kafka, "--group", group))[0].splitlines()
    assert [line.split() for line in out[2:]] == [
        ["topic", "partition", "written", "by", "beginning", "committed", "end", "acked", "runs"],
        [topic, "0", "word", "count", "0", "4", "10", "3", "2"],
        [topic, "1", "another", "program", "0", "3", "0", "–", "–"],
        [f"{topic}-1:", "committed", "3:", "beyond", "the", "end"],
    ]
    [_, foreign] = (await shown(capsys, "offsets", "--brokers", kafka, "--group", group))["partitions"]
    assert (foreign["foreign_metadata"], foreign["topology"], foreign["trouble"]) == ("offset of flink", None, "beyond the end")


async def test_an_acked_set_of_another_offset_is_ignored(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await words(kafka, new_topic)
    await commit(kafka, group, topic, 2, acked_set.encode("words", 4, [5, 7], 4096)[0])
    [first, _] = (await shown(capsys, "offsets", "--brokers", kafka, "--group", group))["partitions"]
    assert (first["topology"], first["acked"], first["acked_runs"]) == ("words", 0, [])


async def test_commits_of_a_deleted_topic(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await words(kafka, new_topic)
    gone = await new_topic(partitions=1)
    await commit(kafka, group, gone, 0)
    await delete_topic(kafka, gone)
    found = await shown(capsys, "lag", "--brokers", kafka, "--group", group)
    assert {one["topic"]: one["trouble"] for one in found["partitions"]} in ({topic: None}, {topic: None, gone: "no such topic"})


async def test_watch_repeats_the_query(kafka: str, new_topic: NewTopic, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, group = await words(kafka, new_topic)
    from engine.cli import kafka_groups

    looks: list[Any] = []

    async def look(*arguments: Any) -> Any:
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt
        return await describe_group(*arguments)

    describe_group = kafka_groups.describe_group
    monkeypatch.setattr(kafka_groups, "describe_group", look)
    out, _ = await printed(capsys, "lag", "--brokers", kafka, "--group", group, "--topic", topic, "--watch", "1ms", "--json")
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize(
    ("target", "after"), [("earliest", 0), ("latest", 10), ("7", 7), ("2001-01-01T00:00Z", 0), ("2999-01-01T00:00Z", 10)]
)
async def test_reset(kafka: str, new_topic: NewTopic, capsys: Captured, target: str, after: int) -> None:
    topic, group = await words(kafka, new_topic)
    where = ["--brokers", kafka, "--group", group]
    out = (await printed(capsys, "reset", *where, "--topic", topic, "--partition", "0", "--to", target, "--yes"))[0]
    assert out.splitlines()[-1].split() == [f"{topic}-0", "4", str(after)]
    [first, second] = (await shown(capsys, "offsets", *where))["partitions"]
    assert (first["committed"], first["topology"], first["acked"]) == (after, "word count", 0)
    assert second["committed"] is None


async def test_a_reset_keeps_the_topology_with_a_long_name(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 4, acked_set.encode("名" * 200, 4, [5, 7], 4096)[0])
    await printed(capsys, "reset", "--brokers", kafka, "--group", group, "--topic", topic, "--to", "7", "--yes")
    note = acked_set.decode((await committed(kafka, group, topic)).metadata)
    assert note is not None
    assert (note.is_by("名" * 200), note.base, note.runs) == (True, 7, ())


async def test_reset_is_refused(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await words(kafka, new_topic)
    where = ["reset", "--brokers", kafka, "--group", group, "--topic", topic, "--to"]
    assert "There is no terminal to ask on. Confirm with --yes." in (await printed(capsys, *where, "earliest", status=2))[1]
    assert "has no offset 11" in (await printed(capsys, *where, "11", "--yes", status=2))[1]
    assert "has no partition 2" in (await printed(capsys, *where, "0", "--partition", "2", "--yes", status=2))[1]
    assert "is not a valid target" in (await printed(capsys, *where, "yesterday", "--yes", status=2))[1]
    [first, _] = (await shown(capsys, "offsets", "--brokers", kafka, "--group", group))["partitions"]
    assert (first["committed"], first["acked"]) == (4, 3)


async def test_the_group_of_a_transactional_topology_shows_its_progress_and_cannot_be_reset(
    kafka: str, new_topic: NewTopic, capsys: Captured
) -> None:
    topic, group = await new_topic(partitions=2), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 4, acked_set.copied_position("word count"))
    [first, _] = (await shown(capsys, "lag", "--brokers", kafka, "--group", group))["partitions"]
    assert (first["topology"], first["committed"], first["lag"], first["acked"]) == ("word count", 4, 6, 0)
    where = ["reset", "--brokers", kafka, "--group", group, "--topic", topic, "--to", "0", "--yes"]
    err = (await printed(capsys, *where, status=2))[1]
    assert "the transactional topology 'word count' keeps its positions in its state provider" in err
    assert "python -m engine transactions URL --topology word count" in err
    assert (await committed(kafka, group, topic)).offset == 4
    await printed(capsys, *where, "--partition", "1")  # no topology reads it


async def test_missing_groups_topics_and_brokers(kafka: str, new_topic: NewTopic, capsys: Captured) -> None:
    topic, group = await words(kafka, new_topic)
    err = (await printed(capsys, "lag", "--brokers", kafka, "--group", f"{group}x", status=2))[1]
    assert err.splitlines() == [f"Error: group '{group}x' does not exist, or has no commits yet", f"Fix: Did you mean '{group}'?"]
    for command in (["lag", "--group", group], ["dead-letters"], ["replay"]):
        err = (await printed(capsys, *command, "--brokers", kafka, "--topic", f"{topic}x", status=2))[1]
        assert err.startswith(f"Error: topic '{topic}x' does not exist")
    err = (await printed(capsys, "lag", "--brokers", "127.0.0.1:1", "--group", group, status=2))[1]
    assert err.startswith("Error: Kafka at 127.0.0.1:1 does not answer (connecting): ConnectionRefusedError")
    assert len(err.splitlines()) == 2
    assert "broker 'nowhere' is not 'host:port'" in (await printed(capsys, "lag", "--brokers", "nowhere", "--group", group, status=2))[1]


async def test_passwords(new_broker: NewBroker, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = new_broker(security=KafkaSecurity(users={"ann": "s3cret"}, tls=True))
    topic = await create_topic(broker.bootstrap, "lines", partitions=1)
    await commit(broker.bootstrap, "group", topic, 0)
    file = tmp_path / "kafka.toml"
    (tmp_path / "ca.pem").write_bytes((broker.folder / "ca.pem").read_bytes())
    file.write_text('protocol = "SASL_SSL"\nmechanism = "SCRAM-SHA-512"\nusername = "ann"\ncafile = "ca.pem"\n')
    lag = ["lag", "--brokers", broker.address("SASL_SSL"), "--security", str(file), "--group", "group"]
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    assert "the password of 'ann' is missing" in (await printed(capsys, *lag, status=2))[1]
    monkeypatch.setenv("KAFKA_PASSWORD", "wrong")
    err = (await printed(capsys, *lag, status=2))[1]
    assert err.startswith("Error: Kafka refused connecting: ")
    assert "Fix: Check username, password and mechanism" in err
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
    assert (await shown(capsys, *lag))["partitions"][0]["committed"] == 0


FAULTS = [
    ('user = "ann"', "user is not a setting. The settings are protocol,"),
    ("password = 12345", "password must be text"),
    ('protocol = "SASL_SSL"', "needs a mechanism"),
    ('protocol = "SSL"\ncafile = "none.pem"', "the certificates cannot be used: "),
    ("protocol = ", "cannot be read: "),
    ("kafka = 1", "kafka is not a table"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_a_wrong_security_file(text: str, fault: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "kafka.toml").write_text(text)
    options = ["--brokers", "127.0.0.1:1", "--security", str(tmp_path / "kafka.toml")]
    assert run_command_line(["kafka", "lag", *options, "--group", "words"]) == 2
    err = capsys.readouterr().err
    assert fault in err
    assert "12345" not in err


def test_aiokafka_is_missing() -> None:
    script = "import sys; sys.modules['aiokafka'] = None; from engine.cli.main import main; main()"
    command = [sys.executable, "-c", script, "kafka", "lag", "--brokers", "127.0.0.1:9092", "--group", "words"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: the kafka commands need aiokafka, which is not installed\nFix: Run: pip install '.[kafka]'\n"


@pytest.mark.parametrize("name", ["lag", "offsets", "reset", "dead-letters", "replay"])
def test_help_teaches_by_example(name: str, capsys: Captured) -> None:
    assert run_command_line(["kafka", name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"  kafka {name} --brokers localhost:9092 " in out
    assert "KAFKA_PASSWORD" in out
