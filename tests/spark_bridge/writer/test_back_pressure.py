"""The engine runs `max_pending_batches` ahead of the slowest consumer, and no further (SP-6)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError
from engine.errors import StateUnavailable
from engine.runtime.run import Run
from spark_bridge.handover.storage.local import LocalStorage
from spark_bridge.writer import open_folder
from tests.spark_bridge.handover.places import KINDS
from tests.spark_bridge.writer.playing import handover_at, numbers, opened, run_hand_over

pytestmark = pytest.mark.guarantee("SP-6")


@pytest.mark.parametrize("kind", KINDS)
def test_batches_wait_for_the_slowest_consumer(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    handover = handover_at(kind, tmp_path / "spool", consumers=("fast", "slow"), max_pending_batches=2)
    seen = []

    async def during(_: Run) -> None:
        folder = opened(handover)
        for planned in range(5):
            folder.consumer("fast").plan(planned + 2)
            folder.consumer("slow").plan(planned)
            await asyncio.sleep(3)
            seen.append(folder.newest())
        folder.consumer("slow").plan(8)

    run_hand_over(handover, during=during, pending=3)
    assert seen == [2, 3, 4, 5, 6]
    assert numbers(handover) == list(range(30))
    told = [record.getMessage() for record in caplog.records if "begins no batch" in record.getMessage()]
    assert told[0] == "'t' begins no batch after 2 for now: consumer 'slow' is 2 batches behind, at 0 (max_pending_batches=2)."


def test_planned_batches_do_not_count_as_pending(tmp_path: Path) -> None:
    handover = handover_at("local", tmp_path / "spool", consumers=("a",), max_pending_batches=1)

    async def during(_: Run) -> None:
        opened(handover).consumer("a").plan(7)

    run_hand_over(handover, during=during)
    assert numbers(handover) == list(range(30))


def test_a_consumer_added_during_the_run_is_waited_for(tmp_path: Path) -> None:
    handover = handover_at("local", tmp_path / "spool", max_pending_batches=3)
    handover.storage().make_folder("consumers")
    opened_at = handover.storage()
    opened_at.make_folder("")
    from spark_bridge.handover import Consumer

    Consumer(opened_at, "late").add()
    finished: list[int] = []

    async def during(run: Run) -> None:
        await asyncio.sleep(3)
        finished.append(opened(handover).newest())
        opened(handover).consumer("late").remove()

    run_hand_over(handover, during=during)
    assert finished == [3]
    assert numbers(handover) == list(range(30))


def test_an_unreachable_storage_holds_batches_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handover = handover_at("local", tmp_path / "spool", consumers=("a",), max_pending_batches=2)
    real, is_away = LocalStorage._names, [False]

    def names(self: Any, folder: str) -> list[str]:
        if folder == "consumers" and is_away[0]:
            raise OSError(5, "Input/output error")
        return real(self, folder)

    monkeypatch.setattr(LocalStorage, "_names", names)

    async def during(_: Run) -> None:
        await asyncio.sleep(3)
        is_away[0] = True
        opened(handover).consumer("a").plan(8)
        await asyncio.sleep(3)
        assert opened(handover).newest() == 2
        is_away[0] = False

    run_hand_over(handover, during=during)
    assert numbers(handover) == list(range(30))


def test_a_storage_that_is_missing_at_the_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handover = handover_at("local", tmp_path / "spool")
    real, left = open_folder.read_contract, [3]

    def reads(storage: Any) -> Any:
        if left[0]:
            left[0] -= 1
            with storage.translate_errors("read", "contract.json"):
                raise OSError(5, "Input/output error")
        return real(storage)

    monkeypatch.setattr(open_folder, "read_contract", reads)
    run_hand_over(handover)
    assert numbers(handover) == list(range(30))
    left[0] = 10**9
    with pytest.raises((ComponentError, StateUnavailable), match=r"Input/output error \(tried for"):
        run_hand_over(handover, config={"state_timeout_secs": 1})


def test_a_damaged_position_ends_the_run_with_its_name(tmp_path: Path) -> None:
    handover = handover_at("local", tmp_path / "spool", consumers=("a",))
    storage = handover.storage()
    storage.make_folder("consumers")
    storage.create("consumers/a.json", b'{"format": "stormc')
    with pytest.raises(ComponentError, match=r"'consumers/a.json' is damaged"):
        run_hand_over(handover)
