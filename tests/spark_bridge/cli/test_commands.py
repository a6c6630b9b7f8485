"""`python -m spark_bridge`: output, errors and effects of its commands."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from spark_bridge.cli.main import run_command_line
from spark_bridge.handover import Position, TornFile
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.spark_bridge.pipeline.folders import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Return a hand-over with three batches and two consumers, of which one has read two."""
    made = Folder(tmp_path / "handover", consumers=["per-minute", "raw"])
    made.write(3)
    made.handover().consumer("raw").plan(2)
    made.handover().consumer("raw").commit(1)
    return made


def test_look_shows_the_folder_and_its_consumers(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["look", folder.path]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:5] == [
        f"hand-over {folder.path}",
        "  written by  component 'spark' of topology 'clicks'",
        "  columns     `number` bigint, `word` string",
        "  manifests   exclusive",
        "  newest txid 3, committed at 2023-11-14 22:13:23",
    ]
    assert "  kept        30 rows, " in out
    assert out.splitlines()[-3:] == [
        "consumer    planned  committed  lag",
        "per-minute        0          0    3",
        "raw               2          1    1",
    ]


def test_look_is_json_for_programs(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["look", folder.path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["newest_txid"], found["deleted_txid"], found["rows"], found["files"]) == (3, 0, 30, 3)
    assert found["consumers"][1] == {"name": "raw", "planned": 2, "committed": 1, "lag": 1}


@pytest.mark.parametrize(("text", "txids"), [("2", [2]), ("2-", [2, 3]), ("1-2", [1, 2]), ("9-", [])])
def test_look_lists_transactions(folder: Folder, text: str, txids: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["look", folder.path, "--txids", text, "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["txid"] for each in listed] == txids
    assert all(each["rows"] == 10 and len(each["files"]) == 1 for each in listed)
    assert run_command_line(["look", folder.path, "--txids", text]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(txids) + 1
    assert txids or lines == ["none of them exists: the folder has 1 to 3"]


def test_a_wrong_folder_is_refused(tmp_path: Path, folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["look", str(tmp_path)]) == 2
    assert "is not a hand-over folder" in capsys.readouterr().err
    assert run_command_line(["look", folder.path, "--txids", "x-"]) == 2
    assert "Write 7, 7-20 or 7-" in capsys.readouterr().err
    assert run_command_line(["lok", folder.path]) == 2
    assert "Did you mean 'look'?" in capsys.readouterr().err


@pytest.mark.guarantee("SP-3")
def test_consumers_are_added_and_removed_by_a_command(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["consumers", folder.path, "add", "new", "raw"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "added consumer 'new': it begins with txid 1",
        "'raw' is already a consumer: it has committed txid 1",
    ]
    assert set(folder.handover().consumers()) == {"new", "per-minute", "raw"}
    assert run_command_line(["consumers", folder.path, "remove", "new", "--yes"]) == 0
    assert set(folder.handover().consumers()) == {"per-minute", "raw"}
    assert run_command_line(["consumers", folder.path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["name"] == "per-minute"


def test_a_consumer_is_removed_only_after_confirmation(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["consumers", folder.path, "remove", "per-minute"]) == 2
    told = capsys.readouterr().err
    assert "'per-minute' has 3 unread transactions, which can then be deleted" in told
    assert "Confirm with --yes" in told
    assert run_command_line(["consumers", folder.path, "remove", "per-minut", "--yes"]) == 2
    assert "Did you mean 'per-minute'?" in capsys.readouterr().err
    assert run_command_line(["consumers", folder.path, "remove"]) == 2
    assert run_command_line(["consumers", folder.path, "add", "no name"]) == 2
    assert set(folder.handover().consumers()) == {"per-minute", "raw"}


def damage(folder: Folder, name: str) -> None:
    path = Path(folder.path, "consumers", f"{name}.json")
    path.write_bytes(path.read_bytes().replace(b'"planned": ', b'"planned": 1'))


def checkpoint_at(path: Path, txids: list[Any], *, done: int) -> str:
    """Write the logs of a query with a micro-batch for each of these end txids. The first `done` of them are finished."""
    for log in ("offsets", "commits"):
        (path / log).mkdir(parents=True)
    for number, txid in enumerate(txids):
        (path / "offsets" / str(number)).write_text(f'v1\n{{"batchTimestampMs": 1}}\n{{"txid": {txid}}}')
        if number < done:
            (path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs": 0}')
    return str(path)


@pytest.mark.guarantee("SP-3")
def test_a_damaged_consumer_is_listed_beside_the_others(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder, "raw")
    for command in (["look", folder.path], ["consumers", folder.path]):
        assert run_command_line(command) == 2
        out, err = capsys.readouterr()
        assert [line.split() for line in out.splitlines()[-2:]] == [["per-minute", "0", "0", "3"], ["raw", "–", "–", "–"]]
        assert "'consumers/raw.json' is damaged: its checksum does not match its content" in err
        assert f"consumers {folder.path} repair raw --checkpoint PATH" in err
        assert "never again" not in err
    assert run_command_line(["consumers", folder.path, "--json"]) == 2
    assert "is damaged" in json.loads(capsys.readouterr().out.splitlines()[1])["error"]
    assert run_command_line(["consumers", folder.path, "add", "new"]) == 0
    assert run_command_line(["consumers", folder.path, "add", "raw"]) == 2


@pytest.mark.guarantee("SP-3")
def test_a_damaged_consumer_is_removed_and_added(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder, "raw")
    assert run_command_line(["consumers", folder.path, "remove", "raw"]) == 2
    assert "'raw' has an unknown number of unread transactions" in capsys.readouterr().err
    assert run_command_line(["consumers", folder.path, "remove", "raw", "--yes"]) == 0
    assert run_command_line(["consumers", folder.path, "add", "raw"]) == 0
    assert "added consumer 'raw': it begins with txid 1" in capsys.readouterr().err


@pytest.mark.guarantee("SP-3")
@pytest.mark.parametrize(
    ("txids", "done", "told"),
    [
        ([1, 2], 2, "'raw' continues with txid 3, by"),
        ([1, 2], 1, "'raw' repeats micro-batch 1, which ends with txid 2, and then continues with txid 3, by"),
    ],
)
def test_a_damaged_consumer_is_repaired_by_its_checkpoint(
    folder: Folder, txids: list[int], done: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder, "raw")
    checkpoint = checkpoint_at(tmp_path / "raw", txids, done=done)
    repair = ["consumers", folder.path, "repair", "raw", "--checkpoint", checkpoint]
    assert run_command_line(repair) == 0
    assert told in capsys.readouterr().err
    assert folder.handover().consumer("raw").read() == Position(2, 0)
    query = HandoverStreamReader(SourceOptions.parse({"path": folder.path, "consumer": "raw"}))
    assert query.partitions({"txid": 2}, {"txid": 2}) == []
    if done == 1:
        assert query.partitions({"txid": 1}, {"txid": 2})
    assert query.latestOffset() == {"txid": 3}
    assert query.partitions({"txid": 2}, {"txid": 3})
    assert run_command_line(repair) == 0
    assert "'raw' is not damaged: it has planned txid 3. Nothing was changed." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("txids", "text"),
    [([], "is not a checkpoint with a micro-batch"), ([7], "is at txid 7, but"), (["x"], "'offsets/0' has no txid")],
)
def test_a_checkpoint_of_another_consumer_is_refused(
    folder: Folder, txids: list[Any], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder, "raw")
    checkpoint = checkpoint_at(tmp_path / "raw", txids, done=0)
    assert run_command_line(["consumers", folder.path, "repair", "raw", "--checkpoint", checkpoint]) == 2
    assert text in " ".join(capsys.readouterr().err.split())
    assert run_command_line(["consumers", folder.path, "repair", "raw"]) == 2
    assert "repair takes one name and --checkpoint" in capsys.readouterr().err
    with pytest.raises(TornFile):
        folder.handover().consumer("raw").read()


def test_a_folder_without_consumers_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["consumers", Folder(tmp_path / "handover").path]) == 0
    assert "nothing is deleted, and the engine never waits" in capsys.readouterr().out


def test_check_describes_the_pipelines_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = tmp_path / "flow.py"
    flow.write_text("def pipeline(batch, txid): ...\ndef traffic(stream): ...\n")
    assert run_command_line(["check", str(flow)]) == 0
    assert "it takes each batch and its txid" in capsys.readouterr().out
    assert run_command_line(["check", f"{flow}:traffic"]) == 0
    assert "A single query is named 'traffic'" in capsys.readouterr().out
    assert run_command_line(["check", f"{flow}:trafic"]) == 2
    assert "Did you mean" in capsys.readouterr().err


def test_package_writes_the_zip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "stormcell-spark.zip"
    assert run_command_line(["package", str(output)]) == 0
    assert "stormcell-spark.zip: " in capsys.readouterr().out
    assert "spark_bridge/source/__init__.py" in zipfile.ZipFile(output).namelist()


def test_package_names_the_path_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["package", str(tmp_path / "nowhere" / "out.zip")]) == 2
    assert "out.zip cannot be written: No such file or directory" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere.py"], "nowhere.py does not exist"),
        (["flow.py", "--conf", "spark.x"], "--conf 'spark.x' has no value"),
        (["flow.py", "--master", "locl[2]"], "master is 'locl[2]'"),
        (["flow.py", "--option", "maxTransactions=2"], "the source has no option 'maxtransactions'"),
        (["flow.py", "--json", "--plain"], "Choose one"),
        (["flow.py", "--until-caught-up", "--until-txid", "3"], "Choose one"),
    ],
)
def test_run_refuses_before_spark_is_started(
    arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flow.py").write_text("def pipeline(stream): ...\n")
    assert run_command_line(["run", "--folder", "handover", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_json_ends_with_the_error_of_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", str(tmp_path / "flow.py"), "--folder", str(tmp_path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["exit_status"], told["snapshot"]) == ("end", 2, None)
    assert "does not exist" in told["error"]["message"]
    assert run_command_line(["run", str(tmp_path / "flow.py"), "--folder", str(tmp_path), "--json", "--master", "here"]) == 2
    assert "master is 'here'" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in ((["--help"], "consumers"), (["run", "--help"], "def pipeline(stream)"), (["look", "--help"], "--txids")):
        assert run_command_line(arguments) == 0
        assert text in capsys.readouterr().out
