"""A process that commits in a loop is killed repeatedly. The next start finds exactly the committed state."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.state import StatePlace, codec_named, provider_of
from engine.state.layered import LayeredState

ROOT = Path(__file__).resolve().parents[2]
PLACE = StatePlace("count", 0, 1, True, 8)
KEYS = 40


def expected(txid: int) -> dict[str, object]:
    """Expected state at a txid. Each checkpoint changes three keys, one of them in place, and deletes one."""
    found: dict[str, object] = {}
    for number in range(txid + 1):
        found[f"key {number % KEYS}"] = number
        found["last"] = number
        found["all"] = [number]
        found.pop(f"key {(number + 7) % KEYS}", None)
    return found


async def started(url: str) -> tuple[LayeredState[str, object], object, int]:
    """Open the state like a start, with the ledger, the last committed txid and the last round."""
    provider = provider_of(url)
    await provider.open("words")
    ledger = provider.ledger("$checkpoint")
    await ledger.claim()
    record = await ledger.read()
    txid = int(str(record.get("txid", -1)))
    counted = [tuple(each) for each in record.get("counted", [])]  # type: ignore[attr-defined]
    state: LayeredState[str, object] = LayeredState(
        await provider.store("count", 0, PLACE.slots), codec_named("msgpack"), PLACE, cache_keys=10
    )
    await state.load(txid, lambda *name: name in counted)
    assert dict(state.items()) == expected(txid), f"as of txid {txid}"
    return state, provider, txid


async def commit_for_ever(url: str) -> None:
    """Run the victim, which prints each txid after its commit."""
    from engine.state import layered

    layered.FOLD_TXIDS = 4
    state, provider, txid = await started(url)
    ledger = provider.ledger("$checkpoint")  # type: ignore[attr-defined]
    counted = (await ledger.read()).get("counted", [])
    round_ = os.getpid()
    while True:
        txid, round_ = txid + 1, round_ + 1
        state.put(f"key {txid % KEYS}", "of a round that never counts")
        state.put("debris", txid)
        state.freeze(txid, round_)
        await state.write_frozen()
        await state.rollback()
        state.put(f"key {txid % KEYS}", txid)
        state.put("last", txid)
        state.put("all", [txid])
        state.delete(f"key {(txid + 7) % KEYS}")
        round_ += 1
        state.freeze(txid, round_)
        await state.write_frozen()
        counted = [*counted, [txid, round_]][-64:]
        await ledger.write({"txid": txid, "counted": counted})
        await state.commit(txid)
        print(txid, flush=True)


@pytest.mark.guarantee("CP-7")
def test_committed_state_survives_kill_9(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    command = [
        sys.executable,
        "-c",
        "import sys, asyncio; from tests.state.test_killed import *; asyncio.run(commit_for_ever(sys.argv[1]))",
        url,
    ]
    last = -1
    for lines in (1, 2, 5, 9, 14, 30):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True) as victim:
            assert victim.stdout is not None
            for _ in range(lines):
                line = victim.stdout.readline()
                assert line, "the victim did not find the committed state"
                assert int(line) == last + 1 or _ == 0
                last = int(line)
            victim.kill()
            victim.wait()
        state_txid = asyncio.run(found_txid(url))
        assert state_txid >= last, "a committed checkpoint is lost"
        last = state_txid


async def found_txid(url: str) -> int:
    """Check the state that the next start finds, and return its txid."""
    _, provider, txid = await started(url)
    await provider.close()  # type: ignore[attr-defined]
    return txid
