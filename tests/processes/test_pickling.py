"""The error for a value that cannot be pickled names the value. Only its tuple fails (PR-1)."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Reply, TopologyBuilder, TopologyError, Tuple, bolt
from engine.testing import Feeder
from tests.processes import bolts
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
    assert "Unpicklable" in failure.error or "Unreadable" in failure.error
    assert text in play.finished.errors[0].text
    assert play.finished.snapshot.components["bolt"].tasks[0].restarts == 0


@pytest.mark.guarantee("PR-1")
def test_an_emitted_value_that_cannot_be_pickled_fails_its_input() -> None:
    play = Play(partial(bolts.Emits, bolts.Unpicklable), range(300))
    assert play.capture.values == [(number,) for number in range(0, 300, 2)]
    assert sorted(play.failures) == list(range(1, 300, 2))
    text = "bolt 'bolt' runs in a process and has emitted a value that cannot be pickled: ("
    assert text in play.failures[1].error
    assert text in play.finished.errors[0].text


@pytest.mark.guarantee("PR-1", "PR-2")
def test_an_emitted_value_that_cannot_be_loaded_is_a_death() -> None:
    play = Play(partial(bolts.Emits, bolts.Unreadable), [1, 2])
    assert play.failures[1].reason == "task_died"
    assert "has sent a value that cannot be read here: ValueError: it was made by another version" in play.finished.errors[0].text


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
    assert "if __name__ == '__main__'" in done.stderr
