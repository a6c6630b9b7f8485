"""The command `state` on Redis. It inspects during and after a run, deletes during a run, and refuses wrong servers."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import engine
from engine import ComponentError, Config, StateError
from engine.checkpoint.deletion import delete_state
from engine.checkpoint.stored import CommittedState
from engine.cli.main import run_command_line
from engine.errors import StateFenced
from engine.state import Row, provider_of
from tests.checkpoint.killed_bolts import Death
from tests.checkpoint.killing import counting_topology
from tests.checkpoint.stored_states import WORDS, read_at_start, read_with_tools, write_words
from tests.checkpoint.test_stored import WORD_PLACES
from tests.cli.test_json_values import read
from tests.integration.redis_states import each, everything, opened, store_of
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.guarantee("CP-8")


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"redis://{HOST}:{server.port}/0?prefix=test"


async def test_inspecting_writes_nothing(server: RedisServer, url: str) -> None:
    await write_words(url)
    before = everything(server)
    found = await read_with_tools(url, "counts")
    assert {key: value for (owner, _, key), value in found.items() if owner == "count"} == WORDS
    assert await read_with_tools(url, "never there") == {}
    assert everything(server) == before
    assert found == await read_at_start(url, "counts", WORD_PLACES)


async def test_an_inspection_is_consistent_or_reports_that_the_run_moved(url: str, tmp_path: Path) -> None:
    config, clean = Config(state_provider=url, state_checkpoint_interval_ms=100), 0
    async with engine.run(counting_topology(tmp_path, 100_000, Death(None, 0)), config) as run:
        while clean < 4:
            assert run.state == "running"
            async with provider_of(url).inventory().look("killed") as stored:
                state = await CommittedState.of(stored, "killed")
                found: list[dict[Any, Any]] = []
                for component_id in ("first", "second"):
                    rows = [row async for rows in state.rows(component_id) for row in rows]
                    found.append({row.key: row.value for row in rows})
                if not await state.has_moved():
                    assert found[0] == found[1], "the two components are not from the same checkpoint"
                    clean += len(found[0]) > 0
        await run.stop()


async def test_a_deletion_fences_a_run(url: str, tmp_path: Path) -> None:
    config = Config(state_provider=url, state_checkpoint_interval_ms=100, state_timeout_secs=5)

    async def run_and_delete() -> None:
        async with engine.run(counting_topology(tmp_path, 100_000, Death(None, 0)), config) as run:
            while len(await read_with_tools(url, "killed")) < 100:
                assert run.state == "running"
            _ = [rows async for rows in delete_state(provider_of(url), "killed")]
            await run.completed()

    with pytest.raises(ComponentError) as raised:
        await run_and_delete()
    assert isinstance(raised.value.error, StateError)
    assert await provider_of(url).inventory().topologies() == []


async def test_a_fenced_process_writes_nothing_into_a_deleted_topology(server: RedisServer, url: str) -> None:
    async with opened(server.address(), "counts") as provider:
        await provider.ledger("one").claim()
        store = await store_of(provider)
        await store.fold(each([Row(0, b"a", b"1")]), 0)
        _ = [rows async for rows in delete_state(provider_of(url), "counts")]
        with pytest.raises(StateError) as raised:
            await store.fold(each([Row(0, b"a", b"2")]), 1)
        assert not isinstance(raised.value, StateFenced) or raised.value.hint
    assert everything(server) == {}


async def test_prefixes_do_not_share_keys(server: RedisServer, url: str) -> None:
    with server.client() as client:
        client.set("somebody's", 1)
        client.set("{test:}:format:not", 1)
    await write_words(url, "a:b {c} *?[")
    await write_words(f"{url}{quote(':more')}", "counts")
    assert await provider_of(url).inventory().topologies() == ["a:b {c} *?["]
    assert await provider_of(f"{url}{quote(':more')}").inventory().topologies() == ["counts"]
    _ = [rows async for rows in delete_state(provider_of(url), "a:b {c} *?[")]
    assert await provider_of(url).inventory().topologies() == []
    assert len(await read_with_tools(f"{url}{quote(':more')}", "counts")) == 6


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    assert run_command_line(["state", *arguments]) == status
    return tuple(capsys.readouterr())  # type: ignore[return-value]


def test_the_commands_work_on_redis(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(write_words(url))
    listed = [json.loads(line) for line in printed(capsys, "list", url, "--json")[0].splitlines()]
    assert [(line["component"], line["keys"], line["rows"], line["deltas"]) for line in listed] == [("count", 3, 3, 3), ("seen", 3, 3, 0)]
    assert "'c'  {'deep': (1, 2)}" in printed(capsys, "show", url)[0]
    found = [json.loads(line) for line in printed(capsys, "export", url, "--component", "count")[0].splitlines()]
    assert {line["key"]: read(line["value"]) for line in found} == WORDS
    assert "A process that runs the topology now loses its state" in printed(capsys, "delete", url, status=2)[1]
    printed(capsys, "delete", url, "--component", "count", "--yes")
    assert [line.split()[1] for line in printed(capsys, "list", url)[0].splitlines()[1:]] == ["seen"]
    printed(capsys, "delete", url, "--yes")
    assert printed(capsys, "list", url)[0] == "the store contains no topology\n"


def test_an_export_says_that_the_run_has_moved_on(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    async def has_moved(_: CommittedState) -> bool:
        return True

    asyncio.run(write_words(url))
    monkeypatch.setattr(CommittedState, "has_moved", has_moved)
    out, err = printed(capsys, "export", url)
    assert (len(out.splitlines()), err) == (
        6,
        "Note: the topology was running during the export. Some keys may be newer than txid 1.\n",
    )
    printed(capsys, "export", url, "-o", str(tmp_path / "words.jsonl"))
    assert len((tmp_path / "words.jsonl").read_text().splitlines()) == 6


@pytest.mark.parametrize("command", ["list", "show", "export", "delete"])
def test_a_wrong_password_is_refused(command: str, redis_installed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = RedisServer(tmp_path, password="right")
    server.start()
    try:
        for password, why in ((":wrong@", "refuses this user or password"), ("", "requires a password")):
            out, err = printed(capsys, command, f"redis://{password}{HOST}:{server.port}/0", status=2)
            assert why in err
            assert ("wrong" in err, out) == (False, "")
    finally:
        server.kill()


@pytest.mark.parametrize("command", ["list", "show", "export", "delete"])
def test_a_newer_format_is_refused(command: str, server: RedisServer, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(write_words(url))
    with server.client() as client:
        client.set("{test:counts}:format", 4)
    assert "written by a newer version" in printed(capsys, command, url, status=2)[1]


@pytest.mark.parametrize("key", ["rows:count:3", "deltas:count:0", "ledger:%24checkpoint", "format"])
def test_a_key_of_another_type_is_refused(key: str, server: RedisServer, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(write_words(url))
    with server.client() as client:
        client.delete(f"{{test:counts}}:{key}")
        client.sadd(f"{{test:counts}}:{key}", "theirs")
    assert "is a set, which the engine did not write" in printed(capsys, "list", url, status=2)[1]
