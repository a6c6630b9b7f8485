"""Calls and hooks of stateful bolts in processes have the effect that they have in one process (PR-1)."""

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import ComponentError, Config, FatalError, TopologyBuilder, spout
from tests.processes import stateful_bolts as bolts
from tests.processes.test_deaths import until
from tests.processes.test_state import play, stored
from tests.project.sources import ROOT

both = pytest.mark.parametrize("is_process", [False, True])


def topology(
    bolt: Any, folder: Path, is_process: bool, count: int, *, pause_secs: float = 0, retries: int | None = None, **config: Any
) -> Any:
    """Return a topology that sends numbers to one task."""

    @spout("number", max_retries=retries, on_give_up=lambda *given: None)
    async def numbers() -> Any:
        for number in range(count):
            yield (number,)
            await asyncio.sleep(pause_secs)

    settings = Config(**{"state_provider": f"sqlite:///{folder}/state.db", "state_checkpoint_interval_ms": 20, **config})
    builder = TopologyBuilder("counts", settings)
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", bolt, processes=is_process).shuffle_grouping("numbers")
    return builder.build()


@pytest.mark.guarantee("PR-1", "ACK-10", "SV-2")
@both
def test_a_checkpoint_waits_for_a_tick(is_process: bool, tmp_path: Path) -> None:
    path = tmp_path / "noted"
    bolt = partial(bolts.TicksInTwoSteps, str(path))
    asyncio.run(play(topology(bolt, tmp_path, is_process, 60, pause_secs=0.02)))
    assert not path.exists(), path.read_text()
    state = stored(tmp_path / "state.db", keyed=False)
    assert (state["numbers"], state["first"], "raised" in state) == (60, state["second"], False)


@pytest.mark.guarantee("PR-1", "ACK-8", "CP-5")
@both
def test_an_acked_input_does_not_time_out_behind_long_calls(is_process: bool, tmp_path: Path) -> None:
    built = topology(bolts.AwaitsLong, tmp_path, is_process, 80, message_timeout_secs=1, state_checkpoint_interval_ms=300)
    snapshot = asyncio.run(play(built))
    assert snapshot.components["numbers"].failed == 0
    assert stored(tmp_path / "state.db", keyed=False) == {"all": 80}


@pytest.mark.guarantee("PR-1", "ACK-12")
@both
def test_a_sys_exit_in_a_hook_ends_the_run(is_process: bool, tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"raised SystemExit: 3 .* is not an Exception"):
        asyncio.run(play(topology(bolts.ExitsInHook, tmp_path, is_process, 40, pause_secs=0.02)))


@pytest.mark.guarantee("PR-1", "CP-4")
@both
def test_a_hook_that_hangs_is_cancelled(is_process: bool, tmp_path: Path) -> None:
    path = tmp_path / "noted"
    bolt = partial(bolts.HangsInCommit, str(path))
    snapshot = asyncio.run(play(topology(bolt, tmp_path, is_process, 20, pause_secs=0.1, checkpoint_timeout_secs=0.5)))
    assert stored(tmp_path / "state.db", keyed=False) == {"all": 20}
    assert path.read_text() != "cancelled with 20\n"  # at once, and not at the end
    [report] = snapshot.errors
    assert "pre_commit() did not return within 0.5 s" in report.text


@pytest.mark.guarantee("PR-1", "CP-4")
@both
def test_a_pre_commit_that_raises_is_repeated_also_by_the_next_run(is_process: bool, tmp_path: Path) -> None:
    path, away = tmp_path / "noted", tmp_path / "noted.away"
    bolt = partial(bolts.CommitsElsewhere, str(path))
    away.touch()

    async def until_it_has_refused(times: int) -> None:
        async with engine.run(topology(bolt, tmp_path, is_process, 10_000, pause_secs=0.01)) as run:
            await until(lambda: path.exists() and path.read_text().count("refused 2\n") >= times)
            await run.stop()

    asyncio.run(until_it_has_refused(2))
    first = path.read_text().splitlines()
    assert first[0] == "init_state with 0"
    assert first[-2:] == ["refused 2"] * 2
    asyncio.run(until_it_has_refused(3))
    away.unlink()
    snapshot = asyncio.run(play(topology(bolt, tmp_path, is_process, 20, pause_secs=0.02)))

    lines = path.read_text().splitlines()[len(first) :]
    counted = int(lines[0].split()[-1])
    assert counted > 0
    assert lines[:4] == [f"init_state with {counted}", "refused 2", f"init_state with {counted}", "committed 2"]
    assert lines[4:] == [f"committed {txid}" for txid in range(3, len(lines) - 1)]
    assert stored(tmp_path / "state.db", keyed=False)["all"] == counted + 20
    assert snapshot.components["numbers"].failed == 0


@pytest.mark.guarantee("PR-1", "CP-4")
@both
def test_a_hook_that_cancels_itself_is_a_death_of_the_task(is_process: bool, tmp_path: Path) -> None:
    bolt = partial(bolts.CancelsItself, str(tmp_path / "cancelled"))
    snapshot = asyncio.run(play(topology(bolt, tmp_path, is_process, 20, pause_secs=0.02)))
    assert stored(tmp_path / "state.db", keyed=False) == {"all": 20}
    [report] = snapshot.errors
    assert report.text.startswith("CancelledError: the component cancelled the asyncio task that runs it")


@pytest.mark.guarantee("PR-1", "CP-9")
def test_a_key_of_that_needs_prepare_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    builder = TopologyBuilder("counts", Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=20))

    @spout("number")
    def numbers() -> Any:
        yield from ((number,) for number in range(10))

    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", bolts.KeyOfNeedsPrepare, processes=True).fields_grouping("numbers", "number")
    with pytest.raises(ComponentError, match=r"bolt 'count': key_of\(\) raised AttributeError") as raised:
        asyncio.run(play(builder.build()))
    assert isinstance(raised.value.error, FatalError)
    assert "without prepare()" in str(raised.value.hint)


@pytest.mark.guarantee("PR-1", "SV-1")
@both
def test_an_instance_whose_calls_all_fail_continues_until_its_renewal(is_process: bool, tmp_path: Path) -> None:
    """The renewal of a stateful bolt takes the run back, so the inputs that still waited fail with it."""
    path = tmp_path / "noted"
    built = topology(partial(bolts.FailsAlways, str(path)), tmp_path, is_process, 300, retries=0, renew_after_failures=50)
    snapshot = asyncio.run(play(built))
    failed = snapshot.components["numbers"].failures
    assert sum(failed.values()) == 300
    assert set(failed) == {"error", "rollback"}
    assert failed["error"] >= 50
    assert path.read_text() == "prepared\n" * 2  # the next renewal is due a second after the first one
    assert sum(task.restarts for task in snapshot.components["count"].tasks) == 1


@pytest.mark.guarantee("PR-1", "CP-4")
@both
def test_emits_of_pre_rollback_are_before_the_barrier(is_process: bool, tmp_path: Path) -> None:
    path = tmp_path / "raised"
    builder = TopologyBuilder("counts", Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=20))

    @spout("number", max_retries=None)
    async def numbers() -> Any:
        for number in range(20):
            yield (number,)
            await asyncio.sleep(0.02)

    builder.set_spout("numbers", numbers)
    builder.set_bolt("first", partial(bolts.EmitsInRollback, str(path), False), processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("raises", partial(bolts.EmitsInRollback, str(path), True)).shuffle_grouping("numbers")
    builder.set_bolt("count", bolts.Counts).shuffle_grouping("first")
    asyncio.run(play(builder.build()))
    assert path.exists()
    assert stored(tmp_path / "state.db", keyed=False) == {}


PROGRAM = """
import asyncio, sys
from dataclasses import dataclass
import engine
from engine import Config, StatefulBasicBolt, TopologyBuilder, spout

@dataclass
class Point:
    x: int

class Keeps(StatefulBasicBolt):
    def execute(self, tup):
        point = self.state.get("point", Point(0))
        point.x += 1
        self.state.put("point", point)
        print(point.x)

@spout("number", max_retries=0)
def numbers():
    yield from ((number,) for number in range(3))

async def main(builder):
    async with engine.run(builder.build()) as run:
        await run.completed()

if __name__ == "__main__":
    builder = TopologyBuilder("points", Config(state_provider=f"sqlite:///{sys.argv[1]}", state_codec="pickle"))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("keeps", Keeps, processes=sys.argv[2] == "process").shuffle_grouping("numbers")
    asyncio.run(main(builder))
"""


@pytest.mark.guarantee("PR-1", "CP-10")
def test_a_program_without_processes_reads_the_pickled_values_of_a_child(tmp_path: Path) -> None:
    program = tmp_path / "points.py"
    program.write_text(PROGRAM)

    def run(how: str) -> str:
        command = [sys.executable, str(program), str(tmp_path / "state.db"), how]
        ended = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=True)
        return str(ended.stdout)

    assert [run(how).split() for how in ("process", "loop", "process")] == [["1", "2", "3"], ["4", "5", "6"], ["7", "8", "9"]]
