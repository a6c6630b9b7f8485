"""`transactions` prints the stored state of coordinators."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run_command_line
from engine.errors import ComponentError
from engine.state import provider_of
from engine.transactional.open_batches import UNPARTITIONED, PartitionOutput, Record
from engine.transactional.transactional_state import TransactionalState
from tests.checkpoint.stored_states import write_words
from tests.cli.commands import run_command
from tests.transactional.batch_topologies import Batches, Partitions, Store, run_batches, summing
from tests.transactional.test_restarts import FIVE, dies_after

pytestmark = pytest.mark.guarantee("TX-9")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state.db"


def table(text: str) -> list[list[str]]:
    return [[cell for cell in line.split("  ") if cell] for line in text.splitlines()]


def as_json(capsys: Captured, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_command(capsys, "transactions", *arguments, "--json")[0].splitlines()]


async def save(url: str, topology: str, *records: Record, partitioned: bool = True, written_at: float | None = None) -> None:
    """Save records like a coordinator."""
    provider = provider_of(url)
    state = TransactionalState(topology, provider, partitioned=partitioned, timeout_secs=1)
    await provider.open(topology)
    await state.claim()
    for record in records:
        await state.save(record, written_at)
    await provider.close()


def test_a_completed_run_is_shown(url: str, capsys: Captured) -> None:
    run_batches(summing(Batches(FIVE), Store()), config={"state_provider": url})
    headline, row, *metadata = table(run_command(capsys, "transactions", url)[0])
    assert headline == ["topology", "runs", "committed", "in doubt", "epoch", "partitions", "written"]
    assert [cell.strip() for cell in row[:6]] == ["summing", "no process", "5", "–", "1", "–"]
    assert row[6].endswith(" ago")
    assert [[cell.strip() for cell in line] for line in metadata if line] == [["txid", "metadata"], ["5", "5"]]


def test_a_txid_in_doubt_is_shown(url: str, capsys: Captured) -> None:
    store = Store()
    with pytest.raises(ComponentError):
        run_batches(summing(Partitions({"a": [1] * 5, "b": [2] * 3}), store, stores=dies_after(store, 2)), config={"state_provider": url})
    *_, header, a, b = run_command(capsys, "transactions", url)[0].splitlines()
    assert header == "partition  after 1, committed  of 2, in doubt"
    assert (a.split(maxsplit=1)[1], b.split(maxsplit=1)[1]) == ("[0, 2]              [2, 4]", "[0, 2]              [2, 3]")
    [found] = as_json(capsys, url)
    assert (found["committed"], found["in_doubt"]["txid"], found["epoch"], found["partitioned"]) == (1, 2, 1, True)
    assert found["in_doubt"]["shares"] == [
        {"partition": "a", "metadata": [2, 4], "tuples": 2},
        {"partition": "b", "metadata": [2, 3], "tuples": 1},
    ]


def test_several_topologies_are_listed(url: str, capsys: Captured) -> None:
    asyncio.run(save(url, "one", Record(3, None, {0: 7})))
    asyncio.run(save(url, "two", Record(1234, None, {"x": {"offset": 5}, 2: None})))
    asyncio.run(save(url, "begun, nothing saved"))
    asyncio.run(write_words(url))  # a topology without transactions
    rows = table(run_command(capsys, "transactions", url)[0])
    assert [row[0].strip() for row in rows] == ["topology", "one", "two"]
    one = run_command(capsys, "transactions", url, "--topology", "two")[0]
    assert "2          None" in one
    assert "'x'        {'offset': 5}" in one
    assert [found["topology"] for found in as_json(capsys, url)] == ["one", "two"]


def test_a_running_topology_can_be_shown(url: str, capsys: Captured) -> None:
    async def look() -> str:
        provider = provider_of(url)
        state = TransactionalState("one", provider, partitioned=False, timeout_secs=1)
        await provider.open("one")
        try:
            await state.claim()
            await state.save(Record(7, {"at": 1}, {}, {"at": 2}, {UNPARTITIONED: PartitionOutput(None, 5, None)}), 0.0)
            return await asyncio.to_thread(lambda: run_command(capsys, "transactions", url)[0])
        finally:
            await provider.close()

    out = asyncio.run(look())
    assert "one       a process          7         8      1           –" in out
    assert "7           {'at': 1}\n8 in doubt  {'at': 2}\n" in out
    [found] = as_json(capsys, url)
    assert (found["holder"], found["written_at"], found["metadata"]) == ("", "1970-01-01T00:00:00.000+00:00", {"at": 1})


def test_long_metadata_is_cut_except_in_json(url: str, capsys: Captured) -> None:
    metadata = {"files": ["a" * 100]}
    asyncio.run(save(url, "one", Record(1, metadata), partitioned=False))
    assert "a" * 100 not in run_command(capsys, "transactions", url)[0]
    assert as_json(capsys, url)[0]["metadata"] == metadata


@pytest.mark.parametrize(
    ("arguments", "said", "fix"),
    [
        (("--topology", "oen"), "the store contains no topology 'oen'", "Did you mean 'one'?"),
        (("--topology", "counts"), "topology 'counts' contains no transactions", "when the first batch begins"),
    ],
)
def test_an_unknown_topology_is_refused(url: str, arguments: tuple[str, ...], said: str, fix: str, capsys: Captured) -> None:
    asyncio.run(write_words(url))
    asyncio.run(save(url, "one", Record(1)))
    out, error = run_command(capsys, "transactions", url, *arguments, status=2)
    assert out == ""
    assert said in error
    assert fix in error


def test_a_store_without_transactions_is_reported(url: str, capsys: Captured) -> None:
    asyncio.run(write_words(url))
    assert "the store contains no transactions" in run_command(capsys, "transactions", url, status=2)[1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("sqlite:///no/such/folder.db", "does not exist"),
        ("memory://", "nothing that a tool could read"),
        ("zookeper://host", "Did you mean 'zookeeper'?"),
        ("zookeeper://", "names no host"),
    ],
)
def test_a_wrong_url_is_refused(wrong: str, said: str, capsys: Captured) -> None:
    assert said in run_command(capsys, "transactions", wrong, status=2)[1]


def test_a_record_of_a_newer_version_is_refused(url: str, capsys: Captured) -> None:
    async def write() -> None:
        provider = provider_of(url)
        await provider.open("one")
        ledger = provider.ledger("transactions")
        await ledger.claim()
        await ledger.write({"transactions": [2, "what", "is", "this"]})
        await provider.close()

    asyncio.run(write())
    error = run_command(capsys, "transactions", url, status=2)[1]
    assert "cannot be read: format 2" in error
    assert "newer version" in error


def test_help_shows_an_example(capsys: Captured) -> None:
    out = run_command(capsys, "transactions", "--help")[0]
    for word in ("committed", "in doubt", "epoch", "zookeeper://", "--topology", "--json"):
        assert word in out


def test_a_deletion_warns_that_transactions_are_deleted_too(url: str, capsys: Captured) -> None:
    asyncio.run(save(url, "one", Record(1234)))
    assert run_command_line(["state", "delete", url]) == 2
    assert "and its transactions up to txid 1,234" in capsys.readouterr().err
    assert run_command_line(["state", "delete", url, "--yes"]) == 0
    capsys.readouterr()
    assert "the store contains no transactions" in run_command(capsys, "transactions", url, status=2)[1]
