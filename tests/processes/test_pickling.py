"""The error for a value that cannot be pickled names the value. Only its tuple fails (PR-1)."""

import itertools
import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Reply, TopologyBuilder, TopologyError, Tuple, bolt
from engine.testing import Feeder
from tests.processes import bolts, odd_values
from tests.processes.test_instances import Play
from tests.project.sources import ROOT


def faults_of(factory: Any) -> str:
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", Feeder("number"))
    builder.set_bolt("bolt", factory, processes=True).shuffle_grouping("numbers")
    with pytest.raises(TopologyError) as raised:
        builder.build()
    return str(raised.value)


@pytest.mark.guarantee("PR-1", "GRP-5")
def test_build_tells_of_a_factory_that_cannot_be_pickled() -> None:
    class Local(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            pass

    @bolt("number")
    def local(tup: Tuple) -> None:
        pass

    for factory, what in (
        (Local, "Local"),
        (lambda: bolts.Echo(), "lambda"),
        (local, "local"),
        (partial(bolts.Scaled, bolts.Unpicklable()), "socket"),
    ):
        told = faults_of(factory)
        assert told.startswith("topology 'play': bolt 'bolt': with processes=True its factory must be picklable, but ")
        assert what in told
        assert "functools.partial(Name, ...)" in told


@pytest.mark.guarantee("PR-1", "GRP-5")
def test_build_refuses_bolts_that_need_more_of_the_run() -> None:
    assert "a Reply answers senders of this process" in faults_of(Reply)


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (bolts.Unpicklable, "cannot be pickled (TypeError: it holds a socket)"),
        (bolts.Unreadable, "cannot be loaded in the process (ValueError: it was made by another version)"),
        (odd_values.ExitsAtPickling, "cannot be pickled (SystemExit: 4)"),
        (odd_values.ExitsAtLoad, "cannot be loaded in the process (SystemExit: 5)"),
    ],
)
def test_only_the_input_with_the_value_fails(value: type[Any], text: str) -> None:
    numbers: list[Any] = [0, value(), 2, 3, value(), *range(5, 400)]
    play = Play(bolts.Echo, numbers)
    assert play.capture.values == [(number,) for number in numbers if isinstance(number, int)]  # also in order
    assert set(play.failures) == {numbers[1], numbers[4]}
    failure = play.failures[numbers[1]]
    assert (failure.reason, failure.component_id, failure.task_id) == ("error", "bolt", 2)
    assert f"bolt 'bolt' runs in a process, and a value of its input {text}" in failure.error
    assert value.__name__ in failure.error
    assert text in play.finished.errors[0].text
    assert play.finished.snapshot.components["bolt"].tasks[0].restarts == 0


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("value", [bolts.Unpicklable, odd_values.ExitsAtPickling])
def test_an_emitted_value_that_cannot_be_pickled_fails_its_input(value: type[Any]) -> None:
    play = Play(partial(bolts.Emits, value), range(300))
    assert play.capture.values == [(number,) for number in range(0, 300, 2)]
    assert sorted(play.failures) == list(range(1, 300, 2))
    text = "bolt 'bolt' runs in a process and has emitted a value that pickle cannot store and load: ("
    assert text in play.failures[1].error
    assert text in play.finished.errors[0].text


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize(
    ("value", "raised"), [(bolts.Unreadable, "ValueError: it was made by another version"), (odd_values.ExitsAtLoad, "SystemExit: 5")]
)
def test_an_emitted_value_that_cannot_be_loaded_fails_its_input(value: type[Any], raised: str) -> None:
    play = Play(partial(bolts.Emits, value), range(300))
    assert play.capture.values == [(number,) for number in range(0, 300, 2)]  # also in order
    assert sorted(play.failures) == list(range(1, 300, 2))
    assert len(play.feeder.acked) == 150
    text = "bolt 'bolt' runs in a process and has emitted a value that pickle cannot store and load: ("
    assert text in play.failures[1].error
    assert f"({raised})" in play.failures[1].error
    assert text in play.finished.errors[0].text
    assert play.finished.snapshot.components["bolt"].tasks[0].restarts == 0


@pytest.mark.guarantee("PR-1")
def test_a_text_of_a_failure_that_cannot_be_pickled_fails_its_input_alone() -> None:
    play = Play(odd_values.FailsWithOddTexts, range(20))
    assert play.values == [(number,) for number in range(20) if number % 5 > 1]
    assert {number: failure.error for number, failure in play.failures.items()} == {n: "odd" for n in range(20) if n % 5 <= 1}
    assert len(play.feeder.acked) == 12


@pytest.mark.guarantee("PR-1")
def test_each_anchor_of_an_emitted_value_that_cannot_be_loaded_fails() -> None:
    play = Play(odd_values.UnreadablePairs, range(8))
    assert play.values == [((number, number + 1),) for number in range(0, 8, 2)]
    assert sorted(play.failures) == [2, 3]


@pytest.mark.guarantee("PR-1")
def test_a_log_record_with_a_value_that_cannot_be_loaded_arrives(caplog: pytest.LogCaptureFixture) -> None:
    play = Play(odd_values.LogsErrors, range(3))
    assert len(play.feeder.acked) == 3
    assert play.finished.snapshot.components["bolt"].tasks[0].restarts == 0
    records = [record for record in caplog.records if record.name == "users.module"]
    assert [record.getMessage() for record in records] == [f"{number} failed" for number in range(3)]
    for record in records:
        assert (record.error, record.code, record.component, record.task) == ("ApiError('404: none')", 404, "bolt", 2)  # type: ignore[attr-defined]


@pytest.mark.guarantee("PR-1")
def test_a_filter_of_the_log_that_raises_kills_no_child(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.log._lost_records", itertools.count(1))  # others may have lost so many that no more are named

    def refuse(record: logging.LogRecord) -> bool:
        raise ValueError("no such record")

    logging.getLogger("users.module").addFilter(refuse)
    try:
        play = Play(odd_values.LogsErrors, range(3))
    finally:
        logging.getLogger("users.module").removeFilter(refuse)
    assert len(play.feeder.acked) == 3
    assert play.finished.snapshot.components["bolt"].tasks[0].restarts == 0
    assert "no such record" in capfd.readouterr().err


SCRIPT = """
import asyncio
import engine
from engine import BasicBolt, TopologyBuilder, bolt, spout

class Number:
    def __init__(self, value):
        self.value = value

@spout("number")
def numbers():
    yield from ((Number(value),) for value in range(4))

class Plus(BasicBolt):
    output_fields = "number"
    def execute(self, tup):
        return (Number(tup["number"].value + 1),)

@bolt()
def show(tup):
    print(tup["number"].value, flush=True)

builder = TopologyBuilder("plus")
builder.set_spout("numbers", numbers)
builder.set_bolt("plus", Plus, processes=True).shuffle_grouping("numbers")
builder.set_bolt("show", show, processes=True).shuffle_grouping("plus")

async def main():
    async with engine.run(builder.build()) as run:
        await run.completed()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("arguments", [("flow.py",), ("-m", "engine", "run", "flow.py", "--plain")], ids=["script", "engine run"])
def test_bolts_and_values_of_a_program_of_one_file(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["1", "2", "3", "4"]


@pytest.mark.guarantee("PR-1")
def test_a_program_without_a_guard_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(SCRIPT.replace('if __name__ == "__main__":\n    asyncio.run(main())', "asyncio.run(main())"))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "flow.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "UsageError: topology 'plus' starts to run while a new process imports this program\nFix: Put the start" in done.stderr
    assert "if __name__ == '__main__'" in done.stderr
    assert "An attempt has been made" not in done.stderr  # a page of multiprocessing, for each task and each of its starts
    assert "its process could not import the program: UsageError: topology 'plus' starts" in done.stderr
