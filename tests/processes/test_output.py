"""What a child prints and logs appears once, in the output of the run (PR-1)."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from engine import TopologyBuilder
from engine.log import JsonFormatter, PlainFormatter
from engine.testing import Feeder, run_topology
from tests.processes import talking_bolts
from tests.processes.test_instances import Play
from tests.project.sources import ROOT


@pytest.mark.guarantee("PR-1")
def test_lines_of_a_child_go_through_the_streams_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    play = Play(talking_bolts.Prints, range(3))
    assert os.getpid() not in {pid for (pid,) in play.values}
    printed = capsys.readouterr()  # these streams are objects of this process, as those above a live table are
    assert printed.out.splitlines() == ["number 0", r"number \udcff", "number 2", "no end"]
    assert [line for line in printed.err.splitlines() if line.startswith("error")] == ["error 0", "error 1", "error 2"]


@pytest.mark.guarantee("PR-1")
def test_lines_of_several_threads_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    feeder = Feeder("number")
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", talking_bolts.PrintsInThreads, threads=4, processes=True).shuffle_grouping("numbers")
    for number in range(4):
        feeder.feed((number,))
    feeder.close()
    run_topology(builder.build())
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == [f"one {number} two {number} three {number} " for number in range(4)]


@pytest.mark.guarantee("PR-1")
def test_a_forked_process_does_not_disturb_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    play = Play(talking_bolts.PrintsInAFork, range(3))
    assert len(play.feeder.acked) == 3
    assert play.finished.snapshot.components["bolt"].tasks[0].restarts == 0
    assert "logged by a fork" not in caplog.text, "it went to standard error, because the fork shares the socket of the child"


@pytest.mark.guarantee("PR-1")
def test_a_stream_of_a_child_has_the_rest_of_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    play = Play(talking_bolts.UsesItsStream, range(3))
    assert len(play.feeder.acked) == 3
    assert capsys.readouterr().out.endswith(f" False 1 {sys.__stdout__.errors}\n")  # type: ignore[union-attr]


@pytest.mark.guarantee("PR-1")
def test_a_closed_output_of_the_run_harms_no_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as closed:
        pass
    monkeypatch.setattr(sys, "stdout", closed)
    play = Play(talking_bolts.Prints, range(3))
    assert len(play.feeder.acked) == 3
    assert "stdout of the run cannot be written: ValueError" in play.finished.errors[0].text


@pytest.mark.guarantee("PR-1")
def test_a_handler_of_prepare_belongs_to_its_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log").write_text("old\n")
    Play(partial(talking_bolts.LogsToItsOwnFile, str(tmp_path / "log")), range(3))
    expected = ["number 0", "number 1", "number 2"]
    assert (tmp_path / "log").read_text().splitlines() == expected
    assert [record.getMessage() for record in caplog.records if record.name == "users.module"] == expected


@pytest.mark.guarantee("PR-1")
def test_a_traceback_of_a_child_stays_apart_from_the_message(caplog: pytest.LogCaptureFixture) -> None:
    Play(talking_bolts.LogsATraceback, range(1))
    (record,) = [record for record in caplog.records if record.name == "users.module"]
    assert record.getMessage() == "order 0"

    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "order 0"
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: no such customer")
    assert line["stack"].startswith("Stack")
    assert PlainFormatter().format(record).count("ValueError: no such customer") == 1


SHOP = """
import asyncio, logging, multiprocessing, sys
import engine
from engine import BasicBolt, TopologyBuilder, spout

LOG = logging.getLogger("shop")
LOG.setLevel("INFO")
LOG.propagate = PROPAGATES
HANDLER = logging.FileHandler("shop.log", "w")
LOG.addHandler(HANDLER)
if multiprocessing.parent_process() is None and sys.argv[1:]:
    LOG.info("the run begins")

@spout("number")
def numbers():
    yield from ((number,) for number in range(3))

class Orders(BasicBolt):
    def execute(self, tup):
        LOG.info("order %s", tup["number"])

builder = TopologyBuilder("shop")
builder.set_spout("numbers", numbers)
builder.set_bolt("orders", Orders, processes=True).shuffle_grouping("numbers")

async def main():
    async with engine.run(builder.build()) as run:
        await run.completed()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("propagates", [True, False])
@pytest.mark.parametrize("arguments", [("shop.py", "now"), ("-m", "engine", "run", "shop.py", "--plain")], ids=["script", "engine run"])
def test_a_handler_of_a_module_handles_a_record_once(arguments: tuple[str, ...], propagates: bool, tmp_path: Path) -> None:
    """And the import of the module in the child does not cut its file."""
    (tmp_path / "shop.py").write_text(SHOP.replace("PROPAGATES", str(propagates)))
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "shop.log").read_text().splitlines() == ["the run begins", "order 0", "order 1", "order 2"]
