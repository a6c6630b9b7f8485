"""Checks of a pipeline's folders: declared consumers, the owner of checkpoints, the offset log."""

from pathlib import Path

import pytest

from spark_bridge.handover import HandoverError, storage_at
from spark_bridge.pipeline.errors import PipelineRefused
from spark_bridge.pipeline.folder_checks import check_declared, claim_checkpoints
from spark_bridge.pipeline.offsets import txid_of_batch, txids_in_log
from tests.spark_bridge.pipeline.folders import Folder


@pytest.mark.guarantee("SP-3")
def test_a_query_that_is_not_a_consumer_is_refused_with_the_command(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "handover", consumers=["raw"])
    with pytest.raises(PipelineRefused, match=r"'per-minute' \(its consumers are 'raw'\)") as raised:
        list(check_declared(folder.handover(), ["raw", "per-minute"]))
    assert f"python -m spark_bridge consumers {folder.path} add per-minute" in str(raised.value)


def test_a_consumer_without_a_query_is_a_warning(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "handover", consumers=["raw", "old"])
    (warning,) = check_declared(folder.handover(), ["raw"])
    assert "consumer 'old'" in warning
    assert f"consumers {folder.path} remove old" in warning


def test_a_checkpoint_folder_belongs_to_one_handover(tmp_path: Path) -> None:
    clicks, orders = Folder(tmp_path / "a"), Folder(tmp_path / "b", topology="orders")
    checkpoints = storage_at(tmp_path / "checkpoints")
    claim_checkpoints(checkpoints, clicks.handover().contract)
    claim_checkpoints(checkpoints, clicks.handover().contract)
    with pytest.raises(PipelineRefused, match=r"the hand-over of 'clicks' .* this hand-over is of 'orders'"):
        claim_checkpoints(checkpoints, orders.handover().contract)


def test_the_txid_of_a_micro_batch_is_in_the_offset_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchTimestampMs":1}\n{"txid": 12}')
    assert txid_of_batch(str(tmp_path), 3) == 12
    with pytest.raises(HandoverError, match="has no 'offsets/4'"):
        txid_of_batch(str(tmp_path), 4)
    assert txids_in_log('v1\n{"txid": 1}\n12\n-') == []
