"""A damaged value in Redis is read as it was written, or raises a clear error (CP-11)."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from engine.cli.main import run_command_line
from engine.errors import StateDamaged, StateError
from engine.state import provider_of
from tests.checkpoint.stored_states import read_at_start, read_with_tools, write_panes, write_words
from tests.checkpoint.test_stored import WORD_PLACES
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer
from tests.state.test_damaged_namespaces import read_all

DAMAGES = 60
CELLS = ("rows", "deltas", "delta", "ledger", "epochs")
"""Kinds of keys that store state. The other keys store the owner of the topology, and the provider refuses a damaged one."""
pytestmark = pytest.mark.guarantee("CP-11")


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"redis://{HOST}:{server.port}/0?prefix=test"


def cells(client: Any) -> list[tuple[bytes, Any, bytes]]:
    """Return each stored value with its key, and with its field or its index in a list."""
    found: list[tuple[bytes, Any, bytes]] = []
    for key in sorted(client.scan_iter("{test:counts}:*")):
        if key.split(b":")[2].decode() in CELLS:
            if client.type(key) == b"hash":
                found += [(key, field, value) for field, value in sorted(client.hgetall(key).items())]
            else:
                found += [(key, number, value) for number, value in enumerate(client.lrange(key, 0, -1))]
    return found


def damage(client: Any, random: Random) -> str:
    """Flip one bit of one value or of one field name. Return a description."""
    key, place, value = random.choice(cells(client))
    in_name = isinstance(place, bytes) and random.random() < 0.3
    changed = bytearray(place if in_name else value)
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    if in_name:
        client.hdel(key, place)
        client.hset(key, bytes(changed), value)
    elif isinstance(place, bytes):
        client.hset(key, place, bytes(changed))
    else:
        client.lset(key, place, bytes(changed))
    return f"{key!r}, {place!r}: {bytes(changed)!r}"


@pytest.mark.parametrize("seed", range(DAMAGES))
def test_a_damaged_value_is_read_as_written_or_refused(
    seed: int, server: RedisServer, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(write_words(url))
    state = asyncio.run(read_with_tools(url, "counts"))
    commands = {command: (run_command_line(["state", command, url]), capsys.readouterr().out) for command in ("list", "show", "export")}
    with server.client() as client:
        how = damage(client, Random(seed))
    for command, (_, expected) in commands.items():
        status = run_command_line(["state", command, url])
        out, err = capsys.readouterr()
        assert "Traceback" not in err, how
        assert (status, err) == (0, "") or (status == 2 and err.startswith("Error: ")), how
        assert status == 2 or sorted(out.splitlines()) == sorted(expected.splitlines()), how
    with suppress(StateError):
        assert asyncio.run(read_at_start(url, "counts", WORD_PLACES)) == state, how


def test_a_row_in_another_key_group_is_refused(server: RedisServer, url: str) -> None:
    asyncio.run(write_words(url))
    with server.client() as client:
        rows = [key for key, _, _ in cells(client) if b":rows:count:" in key]
        client.rename(rows[0], rows[0].rpartition(b":")[0] + b":5")
    with pytest.raises(StateDamaged, match=r"a stored row of 'count', key group 5, is damaged \(read as of txid 1\)"):
        asyncio.run(read_with_tools(url, "counts"))


def test_a_changed_epoch_is_refused(server: RedisServer, url: str) -> None:
    asyncio.run(write_words(url))
    with server.client() as client:
        client.hset("{test:counts}:epochs", "$checkpoint", "7")

    async def claim() -> None:
        provider = provider_of(url)
        await provider.open("counts")
        try:
            await provider.ledger("$checkpoint").claim()
        finally:
            await provider.close()

    with pytest.raises(StateDamaged, match="its epoch"):
        asyncio.run(claim())


def test_rows_of_an_older_version_are_read(server: RedisServer, url: str) -> None:
    asyncio.run(write_words(url))
    state = asyncio.run(read_with_tools(url, "counts"))
    with server.client() as client:
        without_checksums(client)
    assert asyncio.run(read_with_tools(url, "counts")) == state
    assert asyncio.run(read_at_start(url, "counts", WORD_PLACES)) == state
    with server.client() as client:
        assert client.get("{test:counts}:format") == b"2"
    assert asyncio.run(read_with_tools(url, "counts")) == state


def without_checksums(client: Any) -> None:
    """Convert the stored values to format 1."""
    for key, place, value in cells(client):
        kind = key.split(b":")[2]
        if kind == b"delta":
            client.lset(key, place, value[:1] + value[2:-4])
        elif place == b"checksums":
            client.hdel(key, place)
        else:
            client.hset(key, place, value.partition(b":")[0] if kind in (b"deltas", b"epochs") else value[1:-4])
    client.set("{test:counts}:format", 1)


@pytest.mark.parametrize("seed", range(DAMAGES))
def test_a_damaged_namespace_is_read_as_written_or_refused(
    seed: int, server: RedisServer, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in (url, f"{url}-read"):
        asyncio.run(write_panes(each, folds=seed % 2 == 0))
    values = asyncio.run(read_all(f"{url}-read"))  # this drops the prepared delta
    commands = {command: (run_command_line(["state", command, url]), capsys.readouterr().out) for command in ("list", "show", "export")}
    random = Random(seed)
    with server.client() as client:
        sets = [(key, member) for key in sorted(client.scan_iter("{test:counts}:namespaces:*")) for member in sorted(client.smembers(key))]
        if random.random() < 0.3:
            key, member = random.choice(sets)
            changed = bytearray(member)
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
            client.srem(key, member)
            client.sadd(key, bytes(changed))
            how = f"{key!r}: {member!r} became {bytes(changed)!r}"
        else:
            how = damage(client, random)
    for command, (_, expected) in commands.items():
        status = run_command_line(["state", command, url])
        out, err = capsys.readouterr()
        assert "Traceback" not in err, how
        assert (status, err) == (0, "") or (status == 2 and err.startswith("Error: ")), how
        assert status == 2 or sorted(out.splitlines()) == sorted(expected.splitlines()), how
    with suppress(StateError):
        assert asyncio.run(read_all(url)) == values, how
