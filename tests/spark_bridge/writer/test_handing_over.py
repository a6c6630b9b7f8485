"""Each committed batch arrives once, whole, under its own manifest, whatever fails (SP-2, TX-8)."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine import BasicBolt, ComponentError, FatalError, TopologyError, Tuple
from engine.testing import KillTask, run_topology
from engine.transactional import FailedBatch, MemoryOpaqueSpout, MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import SparkHandover
from spark_bridge.handover import Manifest, Position
from spark_bridge.handover.names import ManifestName
from spark_bridge.handover.storage import local
from spark_bridge.writer import manifest_writer, partition_output, stager
from tests.spark_bridge.handover.places import EXCLUSIVE, KINDS
from tests.spark_bridge.writer.playing import (
    DDL,
    FIELDS,
    handing,
    handover_at,
    named,
    numbers,
    opened,
    read_back,
    rows_of,
    run_hand_over,
    staged,
)

pytestmark = pytest.mark.guarantee("SP-2", "TX-8")
ALL = list(range(30))


@pytest.fixture(params=KINDS)
def handover(request: pytest.FixtureRequest, tmp_path: Path) -> SparkHandover:
    return handover_at(request.param, tmp_path / "spool")


@pytest.mark.parametrize("tasks", [1, 3])
def test_every_row_is_there_once_in_the_batch_of_its_txid(handover: SparkHandover, tasks: int) -> None:
    finished = run_hand_over(handover, tasks=tasks)
    assert not finished.errors
    assert [sorted(row["number"] for row in batch) for batch in read_back(handover)] == [ALL[at : at + 4] for at in range(0, 30, 4)]
    assert staged(handover) == named(handover)
    assert all(row["name"] == f"n{row['number']}" for batch in read_back(handover) for row in batch)


def test_the_contract_is_written_before_the_first_batch(handover: SparkHandover) -> None:
    run_hand_over(handover, MemoryTransactionalSpout([], FIELDS, 4))
    contract = opened(handover).contract
    assert (contract.topology, contract.component, contract.schema) == ("t", "spark", handover.arrow_schema)
    assert opened(handover).newest() == 0


def test_a_batch_without_rows_has_a_manifest_without_files(handover: SparkHandover) -> None:
    class Odd(BasicBolt):
        output_fields = FIELDS

        def execute(self, tup: Tuple) -> Any:
            return [(tup["number"], tup["name"])] if tup["number"] >= 8 else []

    builder = TransactionalTopologyBuilder("t", "rows", MemoryTransactionalSpout(rows_of(range(12)), FIELDS, 4))
    builder.set_bolt("odd", Odd, 2).shuffle_grouping("rows")
    handover.declare(builder, "spark", 2).shuffle_grouping("odd")
    run_topology(builder.build())
    assert [len(batch) for batch in read_back(handover)] == [0, 0, 4]
    assert opened(handover).manifest(1).files == ()


@pytest.mark.guarantee("TX-3")
def test_replays_leave_one_batch_each_and_no_other_files(handover: SparkHandover) -> None:
    left = [5, 9, 9, 17, 29]

    class Flaky(BasicBolt):
        output_fields = FIELDS

        def execute(self, tup: Tuple) -> Any:
            if tup["number"] in left:
                left.remove(tup["number"])
                raise FailedBatch
            return (tup["number"], tup["name"])

    builder = TransactionalTopologyBuilder("t", "rows", MemoryTransactionalSpout(rows_of(ALL), FIELDS, 4), max_spout_pending=3)
    builder.set_bolt("flaky", Flaky, 2).shuffle_grouping("rows")
    handover.declare(builder, "spark", 2).shuffle_grouping("flaky")
    run_topology(builder.build())
    assert not left
    assert numbers(handover) == ALL
    assert named(handover) <= staged(handover)


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_stray_manifest_is_named_in_the_error(tmp_path: Path, handover: SparkHandover, when: str) -> None:
    """The stray manifest has a far txid: a copy of another one, or a file of another hand-over."""
    state = tmp_path / "state.db"
    by_attempt = not handover.storage().exclusive
    handover.storage().make_folder("manifests")
    if when == "between":
        run_hand_over(handover, state=state)
        stray = replace(opened(handover).manifest(8), txid=1000)
    else:
        stray = Manifest(1000, 2**32 + 1, 0)
    name = str(stray.name(by_attempt=by_attempt))
    handover.storage().create(name, stray.encoded())
    with pytest.raises(ComponentError, match=f"manifest of txid {9 if when == 'between' else 1} is missing, and '{name}' is there") as told:
        run_hand_over(handover, MemoryTransactionalSpout(rows_of(range(34)), FIELDS, 4), state=state)
    assert "older than the folder" not in str(told.value)
    handover.storage().remove(name)
    run_hand_over(handover, MemoryTransactionalSpout(rows_of(range(34)), FIELDS, 4), state=state)
    assert numbers(handover) == list(range(34))


@pytest.mark.parametrize("component", ["spark", "spark/manifest"])
def test_dead_tasks_lose_no_row(handover: SparkHandover, component: str) -> None:
    finished = run_hand_over(handover, faults=[KillTask(component, task_index=0, at_call={2, 5, 6, 13})])
    assert finished.strikes
    assert numbers(handover) == ALL


@pytest.mark.guarantee("TX-9")
@pytest.mark.parametrize("nth", [1, 2, 5, 8])
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_ended_after_its_manifest_continues(
    tmp_path: Path, handover: SparkHandover, monkeypatch: pytest.MonkeyPatch, nth: int, after: bool
) -> None:
    real, calls = manifest_writer.ManifestWriter.write_manifest, [0]

    def dies(self: Any, manifest: Any, **how: Any) -> bool:
        calls[0] += 1
        if calls[0] == nth and not after:
            raise FatalError("the process dies")
        written = real(self, manifest, **how)
        if calls[0] == nth:
            raise FatalError("the process dies")
        return written

    state = tmp_path / "state.db"
    with monkeypatch.context() as patch:
        patch.setattr(manifest_writer.ManifestWriter, "write_manifest", dies)
        with pytest.raises(ComponentError, match="the process dies"):
            run_hand_over(handover, state=state)
    there = [opened(handover).manifest(txid) for txid in range(1, opened(handover).newest() + 1)]
    assert len(there) == nth - 1 + after
    run_hand_over(handover, state=state, tasks=5)
    assert numbers(handover) == ALL
    assert [opened(handover).manifest(manifest.txid) for manifest in there] == there, "nothing is replaced"
    if handover.storage().exclusive:
        assert staged(handover) == named(handover), "what is of no use is swept"
    run_hand_over(handover, MemoryTransactionalSpout(rows_of(range(34)), FIELDS, 4), state=state)
    assert numbers(handover) == list(range(34))


def test_rows_are_written_as_they_arrive_into_files_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stager, "CHUNK_ROWS", 10)
    monkeypatch.setattr(stager.Stager, "burst_rows", 5)
    monkeypatch.setattr(partition_output, "ROW_GROUP_ROWS", 30)
    monkeypatch.setattr(partition_output, "FILE_ROWS", 100)
    handover = handover_at("local", tmp_path / "spool")
    run_hand_over(handover, MemoryTransactionalSpout(rows_of(range(1000)), FIELDS, 450), tasks=1)
    assert numbers(handover) == list(range(1000))
    files = opened(handover).manifest(1).files
    assert [file.rows for file in files] == [100, 100, 100, 100, 50]
    assert [file.name[-9] for file in files] == ["0", "1", "2", "3", "4"]
    assert staged(handover) == named(handover)


@pytest.mark.parametrize(("action", "first"), [("sync_file", 10), ("sync_folder", 20), ("link", 4)])
def test_a_full_disk_fails_the_batch_until_there_is_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, first: int) -> None:
    real, calls = getattr(local, action), [0]

    def full(*arguments: Any) -> None:
        calls[0] += 1
        if first <= calls[0] < first + 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments)

    monkeypatch.setattr(local, action, full)
    handover = handover_at("local", tmp_path / "spool")
    finished = run_hand_over(handover)
    assert numbers(handover) == ALL
    assert ": No space left on device. Nothing is lost" in finished.errors[0].text.replace("\nFix:", ".")
    assert staged(handover) >= named(handover)
    assert not [name for name in handover.storage().names("manifests") if name.startswith(".")]


def test_a_folder_that_cannot_be_created_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    with pytest.raises(ComponentError, match="Name a folder that can be made"):
        run_hand_over(SparkHandover(tmp_path / "spool" / "below", DDL))


# Another writer in the folder


def test_another_component_topology_or_schema_ends_the_run_and_names_both(handover: SparkHandover) -> None:
    run_hand_over(handover)
    place: dict[str, Any] = {"folder": handover.folder, "filesystem": handover.filesystem}
    with pytest.raises(ComponentError, match="is written by component 'spark' of topology 't', and now by 'spark' of 'u'"):
        run_hand_over(handover, name="u")
    other = SparkHandover(schema="number long", **place)
    with pytest.raises(
        ComponentError, match=r"has the schema \(`number` bigint not null, `name` string\), and this topology declares \(`number` bigint\)"
    ):
        run_hand_over(other)
    builder = TransactionalTopologyBuilder("t", "rows", MemoryTransactionalSpout(rows_of(ALL), FIELDS, 4))
    handover.declare(builder, "else").shuffle_grouping("rows")
    with pytest.raises(ComponentError, match="is written by component 'spark' of topology 't', and now by 'else' of 't'"):
        run_topology(builder.build())
    assert numbers(handover) == ALL


def test_a_state_older_than_the_folder_ends_the_run_before_a_write(handover: SparkHandover) -> None:
    run_hand_over(handover)
    before = staged(handover)
    with pytest.raises(ComponentError, match="has batch 8 already, and the coordinator continues with a new batch 1"):
        run_hand_over(handover)
    assert staged(handover) == before


def test_two_engines_on_one_new_folder_notice_each_other(tmp_path: Path) -> None:
    handover = handover_at("local", tmp_path / "spool")
    run_hand_over(handover)
    for name in handover.storage().names("manifests"):
        handover.storage().remove(f"manifests/{name}")
    with pytest.raises(ComponentError, match="already exists, but this attempt must create it"):
        run_hand_over(handover)


def test_a_folder_that_has_lost_batches_ends_the_run(tmp_path: Path, handover: SparkHandover) -> None:
    state = tmp_path / "state.db"
    run_hand_over(handover, state=state)
    storage = handover.storage()
    for text in storage.names("manifests"):
        name = ManifestName.parse(text)
        if name is not None and name.txid > 5:
            storage.remove(f"manifests/{text}")
    with pytest.raises(ComponentError, match=r"has batches up to 5, and this is batch 9 .*: the batches between are missing"):
        run_hand_over(handover, MemoryTransactionalSpout(rows_of(range(34)), FIELDS, 4), state=state)


def test_a_handover_added_later_begins_at_the_current_txid_and_logs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = tmp_path / "state.db"
    run_hand_over(handover_at("local", tmp_path / "first"), state=state)
    later = handover_at("local", tmp_path / "later")
    run_hand_over(later, MemoryTransactionalSpout(rows_of(range(38)), FIELDS, 4), state=state)
    assert numbers(later) == list(range(30, 38))
    assert opened(later).deleted() == 8
    assert any("is new and begins at batch 9" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "content", [b'{"format": "stormcell-handover", "ver', b'{"format": "x"}', b'{"format": "stormcell-handover", "version": 2}']
)
def test_a_torn_foreign_or_newer_contract_ends_the_run(handover: SparkHandover, content: bytes) -> None:
    run_hand_over(handover)
    handover.storage().replace("contract.json", content)
    with pytest.raises(ComponentError, match=r"'contract.json' is "):
        run_hand_over(handover)


def test_a_handover_without_inputs_is_refused(tmp_path: Path) -> None:
    builder = TransactionalTopologyBuilder("t", "rows", MemoryTransactionalSpout(rows_of(range(4)), FIELDS, 4))
    handover_at("local", tmp_path / "spool").declare(builder, "spark")
    with pytest.raises(TopologyError, match=r"bolt 'spark': has no input.*shuffle_grouping"):
        builder.build()


# Rows that do not fit


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("x", "n"), r"column 'number' is int64 not null, and the value is 'x' \(str\): .*The row: \{'number': 'x', 'name': 'n'\}"),
        ((None, "n"), r"column 'number' is int64 not null, and the value is None \(NoneType\): it is declared not null"),
        ((1, 7), r"column 'name' is string, and the value is 7 \(int\)"),
        ((2**70, "n"), r"column 'number' is int64 not null, and the value is 1180591620717411303424 \(int\)"),
    ],
)
def test_the_first_wrong_row_ends_the_run_with_its_values(tmp_path: Path, row: Any, told: str) -> None:
    handover = handover_at("local", tmp_path / "spool")
    rows: list[Any] = [*rows_of(range(5)), row, ("y", "z"), *rows_of(range(5, 9))]
    with pytest.raises(ComponentError, match=rf"row 1 of batch 2 \(attempt 1\.\d+\) does not fit the schema: {told}"):
        run_hand_over(handover, MemoryTransactionalSpout(rows, FIELDS, 4), tasks=1, pending=1)
    assert numbers(handover) == [0, 1, 2, 3]


def test_wrong_rows_go_to_the_rejects_if_configured(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for kind in KINDS:
        handover = handover_at(kind, tmp_path / kind, on_bad_row="reject")
        rows: list[Any] = [*rows_of(range(5)), ("x", "\ud800"), (None, "n"), *rows_of(range(5, 9)), (9, {1}), *rows_of(range(9, 12))]
        run_hand_over(handover, MemoryTransactionalSpout(rows, FIELDS, 4), tasks=1)
        assert numbers(handover) == list(range(12))
        folder = opened(handover)
        rejects = [pq.read_table(folder.open_input(file)).to_pylist() for txid in (2, 3) for file in folder.manifest(txid).rejects]
        assert [(row["txid"], row["task"], row["row"], row["values"]) for found in rejects for row in found] == [
            (2, 0, 1, '{"number": "x", "name": "\\ud800"}'),
            (2, 0, 2, '{"number": null, "name": "n"}'),
            (3, 0, 3, '{"number": 9, "name": "{1}"}'),
        ]
        assert rejects[0][0]["error"] == "number is 'x' (str): bigint takes an int from -2**63 to 2**63 - 1"
        assert folder.manifest(1).rejects == ()
        assert staged(handover) == named(handover)


def test_a_null_in_a_nested_not_null_field_is_detected(tmp_path: Path) -> None:
    schema = pa.schema([("who", pa.struct([pa.field("name", pa.string(), nullable=False)])), ("tags", pa.list_(pa.string()))])
    handover = handover_at("local", tmp_path / "spool", schema=schema, on_bad_row="reject")
    rows: list[Any] = [({"name": "a"}, ["x", None]), (None, None), ({"name": None}, []), ({}, [])]
    builder = TransactionalTopologyBuilder("t", "rows", MemoryTransactionalSpout(rows, ("who", "tags"), 4))
    handover.declare(builder, "spark").shuffle_grouping("rows")
    run_topology(builder.build())
    assert read_back(handover) == [[{"who": {"name": "a"}, "tags": ["x", None]}, {"who": None, "tags": None}]]


# Topologies that build() refuses


@pytest.mark.parametrize(
    ("spout", "text"),
    [
        (
            MemoryOpaqueSpout({"a": rows_of(ALL)}, FIELDS, 4),
            "cannot replace values that it stored for a txid, and the spout is opaque",
        ),
        (MemoryTransactionalSpout([(1,)], "number", 4), r"reads the field 'name', which stream 'default' of 'rows' does not have"),
    ],
)
def test_a_spout_that_does_not_fit_the_handover_is_refused(tmp_path: Path, spout: Any, text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        handing(handover_at("local", tmp_path / "spool"), spout)


def test_a_manifest_committer_has_one_task(tmp_path: Path) -> None:
    handover = handover_at("local", tmp_path / "spool")
    builder = TransactionalTopologyBuilder("t", "rows", MemoryTransactionalSpout(rows_of(ALL), FIELDS, 4))
    builder.set_bolt("spark", handover.stager, 2).shuffle_grouping("rows")
    builder.set_committer("commits", handover.committer, 2).shuffle_grouping("spark")
    with pytest.raises(TopologyError, match="has no key, so it has one task"):
        builder.build()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"folder": ""}, "the folder of a hand-over is ''"),
        ({"schema": "txid long"}, "has a column 'txid'"),
        ({"consumers": "a"}, r"SparkHandover\(consumers\) is 'a'"),
        ({"consumers": ("a/b",)}, "'a/b' is not a valid name of a consumer"),
        ({"max_pending_batches": 0}, r"SparkHandover\(max_pending_batches\) is 0"),
        ({"keep_batches": -1}, r"SparkHandover\(keep_batches\) is -1"),
        ({"on_bad_row": "drop"}, r"SparkHandover\(on_bad_row\) is 'drop'"),
        ({"compression": "zip"}, r"SparkHandover\(compression\) is 'zip'"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    from engine import UsageError

    with pytest.raises(UsageError, match=text):
        SparkHandover(**{"folder": "spool", "schema": DDL, **settings})


def test_manifests_are_named_by_attempt_without_exclusive_creation(tmp_path: Path) -> None:
    for kind in KINDS:
        handover = handover_at(kind, tmp_path / kind)
        run_hand_over(handover, config={"seed": 1})
        names = [ManifestName.parse(text) for text in handover.storage().names("manifests")]
        assert all(name is not None and (name.attempt_id is None) is EXCLUSIVE[kind] for name in names)
        assert opened(handover).contract.by_attempt is not EXCLUSIVE[kind]


@pytest.mark.guarantee("SP-3")
def test_a_declared_consumer_counts_before_it_has_read(tmp_path: Path) -> None:
    handover = handover_at("local", tmp_path / "spool", consumers=("per-minute",))
    run_hand_over(handover)
    assert dict(opened(handover).consumers()) == {"per-minute": Position()}
