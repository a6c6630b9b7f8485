"""A committer to files: a file is complete or absent, and the highest attempt of a txid counts (TX-8, TX-10)."""

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine import ComponentError, Config, FatalError, StateError, Tuple, UsageError
from engine.api import TaskContext
from engine.testing import Finished, KillTask, run_topology
from engine.transactional import (
    FailedBatch,
    FileCommitter,
    MemoryOpaqueSpout,
    MemoryTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionAttempt,
    as_text,
    committed_files,
    committed_lines,
)
from engine.transactional.files import committer
from engine.transactional.files.output_files import OutputName, counting, name_of, superseded

pytestmark = pytest.mark.guarantee("TX-8", "TX-10")

EPOCH = 2**32
DATA = {"a": [(n,) for n in range(30)], "b": [(n,) for n in range(100, 120)]}
ALL = sorted(n for rows in DATA.values() for (n,) in rows)


def run_committer(folder: Path, spout: Any = None, *, tasks: int = 3, state: Path | None = None, **how: Any) -> Finished:
    builder = TransactionalTopologyBuilder("files", "rows", spout or MemoryTransactionalSpout(DATA, "number", 4), 2)
    builder.set_bolt("out", FileCommitter(folder, **how.pop("committer", {})), tasks).shuffle_grouping("rows")
    settings = {} if state is None else {"state_provider": f"sqlite:///{state}"}
    return run_topology(builder.build(), Config(max_spout_pending=3, **settings), **how)


def numbers(folder: Path, **how: Any) -> list[int]:
    return sorted(json.loads(line)["number"] for line in committed_lines(folder, **how))


# Files that count


def files(*texts: str) -> list[OutputName]:
    """Make output names of texts like `txid.attempt.task/tasks`."""
    made = []
    for text in texts:
        place, tasks = text.split("/")
        txid, attempt, task = map(int, place.split("."))
        made.append(OutputName(txid, EPOCH + attempt, task, int(tasks), ".jsonl"))
    return made


@pytest.mark.parametrize(
    "name",
    [OutputName(7, EPOCH + 3, 0, 3, ".jsonl"), OutputName(10**15, 10**9 * EPOCH, 12, 100, ""), OutputName(1, EPOCH, 0, 1, ".a.tmp.b")],
)
def test_file_names_can_be_parsed_and_sort_by_txid(name: OutputName) -> None:
    assert name_of(str(name)) == (name, False)
    assert name_of(name.draft) == (name, True)
    assert str(name) < str(name._replace(attempt_id=name.attempt_id + 1)) < str(name._replace(txid=name.txid + 1))


@pytest.mark.parametrize("text", ["notes.txt", ".written-by.json", "7-1.1-0-of-1", "000000000007-00000001.0000000001-0-of-1.tmp", ""])
def test_other_names_are_ignored(text: str) -> None:
    assert name_of(text) is None


@pytest.mark.parametrize(
    ("there", "settled", "newest"),
    [
        ([], [], []),
        (["1.1.0/2"], [], []),
        (["1.1.0/2", "1.1.1/2"], [], ["1.1.0/2", "1.1.1/2"]),
        (["1.1.1/2", "1.1.0/2", "2.2.0/2"], ["1.1.0/2", "1.1.1/2"], []),
        (["1.1.0/1", "2.2.0/1"], ["1.1.0/1"], ["2.2.0/1"]),
        (["1.1.0/2", "1.1.1/2", "1.5.0/2"], [], []),
        (["1.1.0/2", "1.1.1/2", "1.5.0/1"], [], ["1.5.0/1"]),
        (["1.1.0/1", "1.5.0/3", "1.5.1/3", "1.5.2/3", "2.6.0/3"], ["1.5.0/3", "1.5.1/3", "1.5.2/3"], []),
        (["1.5.0/1", "2.6.0/1", "1.1.0/2"], ["1.5.0/1"], ["2.6.0/1"]),
    ],
)
def test_the_highest_attempt_of_a_txid_counts_and_the_newest_txid_only_if_it_is_complete(there: Any, settled: Any, newest: Any) -> None:
    assert counting(files(*there)) == (files(*settled), files(*newest))


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(StateError, match="of txid 1 only the tasks 0, 2 of 3 have a file, although later txids exist"):
        counting(files("1.1.0/3", "1.1.2/3", "2.2.0/3"))


def test_files_of_old_attempts_are_removed_and_files_that_count_are_kept() -> None:
    count = files("1.3.0/2", "1.3.1/2", "2.4.0/2", "2.4.1/2", "3.9.0/2", "3.9.1/2")
    over = files("1.1.0/2", "1.2.1/2", "2.3.0/3", "3.5.0/2")
    drafts = files("2.3.1/3", "3.8.0/2")
    under_way = files("3.9.1/2")
    names = [(name, False) for name in count + over] + [(name, True) for name in drafts + under_way]
    removed = superseded(names, TransactionAttempt(3, EPOCH + 9))
    assert sorted(removed) == sorted([*map(str, over), *(name.draft for name in drafts)])


# Runs


@pytest.mark.parametrize("tasks", [1, 3])
def test_all_tuples_are_in_the_files_once(tmp_path: Path, tasks: int) -> None:
    run_committer(tmp_path / "out", tasks=tasks)
    assert numbers(tmp_path / "out") == ALL
    assert len(committed_files(tmp_path / "out")) == 8 * tasks, "one from every task, even if empty"
    assert len(committed_files(tmp_path / "out", newest=False)) == 7 * tasks


@pytest.mark.parametrize("kind", [MemoryTransactionalSpout, MemoryOpaqueSpout])
def test_a_replay_replaces_the_files_of_the_failed_attempt(tmp_path: Path, kind: Any) -> None:
    left = [1, 3, 3, 8]

    def flaky(tup: Tuple) -> str:
        attempt: TransactionAttempt = tup[0]
        if attempt.txid in left and tup[1] % 2:
            left.remove(attempt.txid)
            raise FailedBatch
        return json.dumps({"number": tup[1]})

    run_committer(tmp_path / "out", kind(dict(DATA), "number", 4), committer={"format": flaky})
    assert not left
    assert numbers(tmp_path / "out") == ALL


def test_tasks_that_die_leave_no_files_behind(tmp_path: Path) -> None:
    finished = run_committer(tmp_path / "out", faults=[KillTask("out", task_index=1, at_call={5, 11, 30})])
    assert len(finished.strikes) == 3
    assert numbers(tmp_path / "out") == ALL
    assert all(name.startswith("0000") or name == ".written-by.json" for name in os.listdir(tmp_path / "out"))


@pytest.mark.guarantee("TX-9")
@pytest.mark.parametrize("tasks", [1, 5])
@pytest.mark.parametrize("nth", [2, 7, 8, 9, 24])
@pytest.mark.parametrize("step", ["_write_durably", "_sync_folder"])
def test_after_a_death_at_any_step_the_next_run_continues_with_any_number_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, nth: int, tasks: int
) -> None:
    out, state = tmp_path / "out", tmp_path / "state.db"
    real, calls = getattr(committer, step), [0]

    def dies(*arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == nth:
            raise FatalError("the process dies")
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(committer, step, dies)
        with pytest.raises(ComponentError, match="the process dies"):
            run_committer(out, state=state)
    settled = committed_files(out, newest=False)
    contents = [path.read_bytes() for path in settled]
    run_committer(out, state=state, tasks=tasks)
    assert numbers(out) == ALL
    assert committed_files(out)[: len(settled)] == settled
    assert [path.read_bytes() for path in settled] == contents
    assert not list(out.glob(".*.tmp"))


def test_a_late_file_of_an_old_attempt_is_ignored_and_the_next_run_removes_it(tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state.db"
    run_committer(out, state=state)
    late = [OutputName(8, 1, 0, 3, ".jsonl"), OutputName(3, 1, 0, 1, ".jsonl")]
    for name in late:
        (out / str(name)).write_text('{"number": -1}\n')
    (out / OutputName(8, 1, 1, 3, ".jsonl").draft).write_text("half a li")
    (out / "notes.txt").write_text("mine")
    assert numbers(out) == ALL
    run_committer(out, MemoryTransactionalSpout({**DATA, "c": [(200,)]}, "number", 4), state=state)
    assert numbers(out) == [*ALL, 200]
    assert not {str(name) for name in late} & set(os.listdir(out))
    assert not list(out.glob(".*.tmp"))
    assert (out / "notes.txt").exists()


def test_a_state_that_is_older_than_the_folder_ends_the_run(tmp_path: Path) -> None:
    run_committer(tmp_path / "out")
    with pytest.raises(ComponentError, match=r"has the output of batch 8 \(attempt 1\.8\), which is later than batch 1 \(attempt 1\.1\)"):
        run_committer(tmp_path / "out")
    assert numbers(tmp_path / "out") == ALL


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    run_committer(tmp_path / "out")
    (tmp_path / "out" / ".written-by.json").write_text('{"topology": "other", "component": "out"}')
    with pytest.raises(ComponentError, match=r"belongs to \{'topology': 'other', 'component': 'out'\}, and"):
        run_committer(tmp_path / "out")


def test_a_folder_that_cannot_be_created_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ComponentError, match=r"the folder '.*out' cannot be written to: "):
        run_committer(tmp_path / "out")


@pytest.mark.parametrize("step", ["_write_durably", "_sync_folder"])
def test_a_full_disk_fails_the_batch_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    real, calls = getattr(committer, step), [0]
    out = tmp_path / "out"

    def full(path: str, *arguments: Any) -> None:
        calls[0] += 1
        if 10 <= calls[0] < 20:
            if step == "_write_durably":
                Path(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, *arguments)

    monkeypatch.setattr(committer, step, full)
    finished = run_committer(out)
    assert numbers(out) == ALL
    assert "cannot be written: No space left on device" in finished.errors[0].text
    assert not list(out.glob(".*.tmp"))


def test_bytes_are_written_unchanged_and_values_are_joined_with_tabs(tmp_path: Path) -> None:
    run_committer(tmp_path / "bytes", committer={"format": lambda tup: bytes([tup[1]]), "suffix": ""})
    assert sorted(b"".join(path.read_bytes() for path in committed_files(tmp_path / "bytes"))) == ALL
    run_committer(
        tmp_path / "text", MemoryTransactionalSpout([("é", 1)], ("word", "count"), 1), committer={"format": as_text, "suffix": ".tsv"}
    )
    assert list(committed_lines(tmp_path / "text")) == ["é\t1"]


def test_a_format_that_returns_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match="returned 7"):
        run_committer(tmp_path / "out", committer={"format": lambda tup: 7})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((None,), "folder"),
        (("",), "folder"),
        (("out", as_text, "jsonl"), "suffix"),
        (("out", as_text, ".tmp"), "suffix"),
        (("out", as_text, "/x"), "suffix"),
        (("out", "json"), "format"),
        (("out", lambda: ""), "format"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(UsageError, match=rf"FileCommitter\({text}\) is"):
        FileCommitter(*arguments).create()


async def test_when_two_topologies_claim_a_new_folder_at_once_only_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one claims after the first has read the folder, and before its note."""
    real, names = committer._write_durably, ["slow", "quick"]

    def claimed_by(name: str) -> committer.OpenFolder:
        context = SimpleNamespace(topology_name=name, component_id="out", task_id=0)
        return committer.OpenFolder(str(tmp_path / "out"), cast(TaskContext, context))

    slow, quick = map(claimed_by, names)

    def meanwhile(path: str, lines: list[bytes]) -> None:
        monkeypatch.setattr(committer, "_write_durably", real)
        quick._claim()
        real(path, lines)

    monkeypatch.setattr(committer, "_write_durably", meanwhile)
    try:
        with pytest.raises(FatalError, match=r"belongs to \{'topology': 'quick', 'component': 'out'\}, and"):
            await slow.claim()
        await quick.claim()
    finally:
        await slow.close()
        await quick.close()
    assert os.listdir(tmp_path / "out") == [".written-by.json"]
