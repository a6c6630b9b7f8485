"""`positions` shows, sets and resets the positions of exact sources (PO-1 to PO-3)."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from engine import Config, Run, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple, spout
from engine.checkpoint.machine import Record
from engine.checkpoint.record_entries import LEDGER, StoredEntries, record_entry
from engine.cli.json_values import json_form, value_of_json
from engine.cli.main import run_command_line
from engine.state import provider_of
from engine.testing import run_topology
from tests.cli.commands import run_command
from tests.cli.test_json_values import VALUES

Captured = pytest.CaptureFixture[str]


@spout("n", positions=True)
def lines(after: int | None) -> Iterator[tuple[int, tuple[str]]]:
    for number in range(after or 0, 10):
        yield number + 1, (f"line {number}",)


@spout("n", repeatable=True)
def rows() -> Iterator[tuple[str]]:
    for number in range(10):
        yield (f"row {number}",)


class Partitions(Spout):
    """Reads two partitions of a topic, and one whose name is a tuple."""

    output_fields = "n"
    partitioned = True

    def seek(self, position: dict[Any, int] | None) -> None:
        self.next: dict[Any, int] = {"text-0": 0, "text-1": 0, ("eu", 1): 0} | (position or {})

    def position(self) -> dict[Any, int]:
        return dict(self.next)

    def next_tuple(self) -> None:
        for partition, number in self.next.items():
            if number < 10:
                self.next[partition] += 1
                self.collector.emit((f"{partition} {number}",))
                return
        raise SpoutExhausted


counts: Counter[str] = Counter()


class Count(StatefulBasicBolt):
    """Counts rows, and notes each call."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        counts[tup[0]] += 1


def play(url: str, *, during: Any = None, topology: str = "words") -> None:
    builder = TopologyBuilder(topology)
    for name, source in {"lines": lines, "rows": rows, "topics": Partitions}.items():
        builder.set_spout(name, source)
    bolt = builder.set_bolt("count", Count)
    for name in ("lines", "rows", "topics"):
        bolt.fields_grouping(name, "n")
    run_topology(builder.build(), Config(state_provider=url), during=during)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a store with the positions of a complete run."""
    found = f"sqlite:///{tmp_path}/s.db"
    play(found)
    counts.clear()
    return found


def shown(capsys: Captured, *arguments: str) -> dict[Any, Any]:
    """Return the positions of `positions show --json`, by spout and partition."""
    out = run_command(capsys, "positions", "show", *arguments, "--json")[0]
    return {(each["spout"], str(each["partition"])): each["position"] for each in map(json.loads, out.splitlines())}


# show


@pytest.mark.guarantee("PO-1")
def test_show_has_a_line_for_each_partition_and_task(url: str, capsys: Captured) -> None:
    out = run_command(capsys, "positions", "show", url)[0]
    header, *lines = out.splitlines()
    assert header.split() == ["topology", "spout", "partition", "position", "txid"]
    assert [line.split()[:3] for line in lines] == [
        ["words", "lines", "0"],
        ["words", "rows", "0"],
        ["words", "topics", "text-0"],
        ["words", "topics", "text-1"],
        ["words", "topics", '{"$tuple":'],
    ]
    [txid] = {line.split()[-1] for line in lines}
    assert run_command(capsys, "state", "show", url)[0].startswith(f"topology 'words': txid {txid} is committed")
    of_one = run_command(capsys, "positions", "show", url, "words", "lines")[0].splitlines()
    assert [line.split() for line in of_one[1:]] == [lines[0].split()]


@pytest.mark.guarantee("PO-1")
def test_show_for_programs(url: str, capsys: Captured) -> None:
    [line] = map(json.loads, run_command(capsys, "positions", "show", url, "words", "lines", "--json")[0].splitlines())
    assert line.pop("txid") >= 0
    assert line == {
        "topology": "words", "spout": "lines", "partitioned": False, "tasks": 1, "partition": 0, "position": 10, "phase": "committed",
    }  # fmt: skip
    positions = shown(capsys, url)
    assert positions["topics", "text-1"] == 10
    count, _, text = positions["rows", "0"]
    assert (count, text) == (10, "('row 9',)")


@pytest.mark.guarantee("PO-1")
def test_show_does_not_disturb_a_run(tmp_path: Path, capsys: Captured) -> None:
    url, seen = f"sqlite:///{tmp_path}/s.db", list[str]()

    async def script(run: Run) -> None:
        while run.state == "running" and not seen:
            await asyncio.sleep(0.1)
            out = await asyncio.to_thread(run_command, capsys, "positions", "show", url)
            seen.extend(line for line in out[0].splitlines() if "lines" in line)

    play(url, during=script)
    assert seen


# set


@pytest.mark.guarantee("PO-2")
def test_the_next_run_continues_exactly_at_the_set_position(url: str, capsys: Captured) -> None:
    out, told = run_command(capsys, "positions", "set", url, "words", "lines", "0=7")
    assert out.splitlines()[1].split() == ["0", "10", "7"]
    assert "The state of the bolts stays as it is, so some rows may count again, or never." in told
    assert "python -m engine state delete URL --topology words" in told
    run_command(capsys, "positions", "set", url, "words", "rows", "0=8")
    run_command(capsys, "positions", "set", url, "words", "topics", "text-1=9", '{"$tuple": ["eu", 1]}=8')

    play(url)

    expected = ["line 7", "line 8", "line 9", "row 8", "row 9", "text-1 9", "('eu', 1) 8", "('eu', 1) 9"]
    assert counts == Counter(expected)
    assert shown(capsys, url)["lines", "0"] == 10
    assert shown(capsys, url)["rows", "0"][2] == "('row 9',)"


@pytest.mark.guarantee("PO-2")
def test_a_partition_of_a_known_topic_may_be_new_and_written_with_a_slash(url: str, capsys: Captured) -> None:
    run_command(capsys, "positions", "set", url, "words", "topics", "text/1=4", "text/7=2")
    positions = shown(capsys, url, "words", "topics")
    assert (positions["topics", "text-0"], positions["topics", "text-1"], positions["topics", "text-7"]) == (10, 4, 2)


@pytest.mark.guarantee("PO-2")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("wrods", "lines", "0=7"), "the store contains no topology 'wrods'\n  fix: Did you mean 'words'?"),
        (("words", "line", "0=7"), "topology 'words' has stored no positions of a spout 'line'\n  fix: Did you mean 'lines'?"),
        (("words", "lines", "1=7"), "spout 'lines' of topology 'words' has no task '1'\n  fix: "),
        (("words", "topics", "test-0=7"), "spout 'topics' of topology 'words' has no partition 'test-0'\n  fix: Did you mean 'text-0'?"),
        (("words", "lines", "0"), "'0' is not PARTITION=POSITION\n  fix: Write 0=1200."),
        (("words", "lines", "0=abc"), "the position 'abc' of '0' is not JSON\n  fix: Write a number, or a text in quotes: '0=\"abc\"'."),
        (("words", "lines", '0={"$bites": "x"}'), "is not JSON"),
        (("words", "lines", f"0={'[' * 5000}{']' * 5000}"), "… of '0' is not JSON"),
        (("words", "lines", "0=7", "0=8"), "there are two positions of '0'\n  fix: Write one."),
        (("words", "topics", "text-7=1", "text/7=1"), "there are two positions of 'text-7'"),
    ],
)
def test_what_does_not_exist_is_refused_and_nothing_is_changed(arguments: tuple[str, ...], says: str, url: str, capsys: Captured) -> None:
    before = shown(capsys, url)
    error = run_command(capsys, "positions", "set", url, *arguments, status=2)[1]
    assert says.replace("  fix: ", "Fix: ") in error.replace("  fix: ", "Fix: ").replace("\n  ", "\n")
    assert shown(capsys, url) == before


# reset


@pytest.mark.guarantee("PO-3")
def test_a_reset_asks_and_lets_the_spout_begin_at_the_beginning(url: str, capsys: Captured) -> None:
    said = run_command(capsys, "positions", "reset", url, "words", "lines", status=2)[1]
    assert "'lines' of topology 'words' will begin at the beginning. The state of the bolts stays as it is" in said
    assert "There is no terminal to ask on. Confirm with --yes." in said
    assert shown(capsys, url)["lines", "0"] == 10

    told = run_command(capsys, "positions", "reset", url, "words", "lines", "--yes")[1]

    assert "reset the positions of 'lines' of topology 'words'" in told
    assert "lines" in run_command(capsys, "positions", "show", url, "words")[0].splitlines()[1]
    assert "from the beginning" in run_command(capsys, "positions", "show", url, "words", "lines")[0]
    play(url)
    assert counts == Counter(f"line {number}" for number in range(10))


@pytest.mark.guarantee("PO-3")
def test_a_reset_of_a_topology_resets_all_spouts(url: str, capsys: Captured) -> None:
    run_command(capsys, "positions", "reset", url, "words", "--yes")
    assert shown(capsys, url) == {}
    play(url)
    assert sum(counts.values()) == 50
    assert set(counts.values()) == {1}


@pytest.mark.guarantee("PO-3")
def test_a_spout_that_was_reset_may_have_another_number_of_tasks(url: str, capsys: Captured) -> None:
    run_command(capsys, "positions", "reset", url, "words", "lines", "--yes")
    builder = TopologyBuilder("words")
    builder.set_spout("lines", lines, parallelism=2)
    builder.set_bolt("count", Count).fields_grouping("lines", "n")
    run_topology(builder.build(), Config(state_provider=url))
    assert counts == Counter({f"line {number}": 2 for number in range(10)}), "both tasks read all lines"


@pytest.mark.guarantee("PO-3", "DL-6")
def test_a_reset_lets_no_letter_be_retried_whose_row_comes_again(url: str, capsys: Captured) -> None:
    def play_lines(*, fails: bool) -> None:
        class Checks(Count):
            def execute(self, tup: Tuple) -> None:
                if fails and tup[0] == "line 3":
                    raise ValueError
                super().execute(tup)

        builder = TopologyBuilder("lines")
        builder.set_spout("lines", lines)
        builder.set_bolt("count", Checks).global_grouping("lines")
        run_topology(builder.build(), Config(state_provider=url))

    play_lines(fails=True)
    run_command(capsys, "dead-letters", "retry", url, "--topology", "lines", "--all")
    told = run_command(capsys, "positions", "reset", url, "lines", "--yes")[1]
    assert "emit the row of 1 dead letter again" in " ".join(told.split())
    counts.clear()
    play_lines(fails=False)
    assert counts == {f"line {number}": 1 for number in range(10)}
    assert "given up" in run_command(capsys, "dead-letters", "list", url, "--topology", "lines")[0]


# set and reset


@pytest.mark.guarantee("PO-2", "PO-3")
def test_while_a_process_runs_the_topology_nothing_is_changed(tmp_path: Path, capsys: Captured) -> None:
    url, said = f"sqlite:///{tmp_path}/s.db", list[str]()
    play(url)

    async def script(run: Run) -> None:
        for arguments in (("set", url, "words", "lines", "0=1"), ("reset", url, "words", "--yes")):
            assert await asyncio.to_thread(run_command_line, ["positions", *arguments]) == 2
            said.append(capsys.readouterr().err)

    play(url, during=script)
    assert "topology 'words' runs now, in" in said[0]
    assert "so its positions cannot be set" in said[0]
    assert "so its positions cannot be reset" in said[1]
    assert shown(capsys, url)["lines", "0"] == 10


async def _write_record(url: str, phase: Any) -> Record:
    """Leave the record of a process that was killed in a step."""
    provider = provider_of(url)
    await provider.open("words")
    ledger = provider.ledger(LEDGER)
    await ledger.claim()
    record = StoredEntries(await ledger.read(), "words").record
    moves = 1 if phase == "preparing" else 0
    found = replace(record, phase=phase, txid=record.txid + moves)
    await ledger.write(record_entry(found))
    await provider.close()
    return found


async def _record(url: str) -> Record:
    async with provider_of(url).inventory().look("words") as stored:
        return StoredEntries(await stored.entries(LEDGER), "words").record


@pytest.mark.guarantee("PO-2")
@pytest.mark.parametrize("phase", ["preparing", "committing"])
def test_an_interrupted_checkpoint_is_settled_as_at_a_start(phase: str, url: str, capsys: Captured) -> None:
    """Positions of a decided commit are the committed ones. A checkpoint that was only being prepared is undone in the same write."""
    interrupted = asyncio.run(_write_record(url, phase))

    run_command(capsys, "positions", "set", url, "words", "lines", "0=7")

    settled = asyncio.run(_record(url))
    undone = ("committed", interrupted.txid - 1)
    assert (settled.phase, settled.txid) == (undone if phase == "preparing" else ("committing", interrupted.txid))
    play(url)
    assert counts == Counter(["line 7", "line 8", "line 9"])


@pytest.mark.guarantee("PO-1")
def test_a_topology_without_exact_sources_says_so(tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    builder = TopologyBuilder("plain")
    builder.set_spout("lines", spout("n")(rows.function))
    builder.set_bolt("count", Count).fields_grouping("lines", "n")
    run_topology(builder.build(), Config(state_provider=url))
    assert run_command(capsys, "positions", "show", url)[0] == "the store has no position of an exact source\n"
    assert run_command(capsys, "positions", "show", url, "plain")[0] == "topology 'plain' has no exact source\n"
    assert "topology 'plain' has no exact source" in run_command(capsys, "positions", "reset", url, "plain", "--yes", status=2)[1]


@pytest.mark.parametrize("command", ["show", "set", "reset"])
def test_the_help_has_examples(command: str, capsys: Captured) -> None:
    out = run_command(capsys, "positions", command, "--help")[0]
    assert f"  positions {command} " in out
    assert f"  {command}" in run_command(capsys, "positions", "--help")[0]
    assert "positions" in run_command(capsys, "--help")[0]


@given(VALUES)
def test_each_form_of_a_value_can_be_written_as_a_position(value: Any) -> None:
    assert value_of_json(json.loads(json.dumps(json_form(value)))) == value
