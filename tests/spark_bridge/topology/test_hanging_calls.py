"""A plain call that never returns fails its attempt, with component, task and the place where it hangs (CL-3)."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Tuple
from spark_bridge.topology.hang_watch import EXIT_STATUS, notes_in
from tests.patience import PATIENCE_SECS
from tests.spark_bridge.topology import hanging
from tests.spark_bridge.topology.hanging import Spins, Waits, loaded, statuses

pytestmark = pytest.mark.guarantee("CL-3")


class WaitsInPrepare(Spins):
    def prepare(self) -> None:
        while True:
            pass


@pytest.mark.parametrize(("bolt", "line"), [(Spins, 'tup["number"]'), (Waits, "threading.Event().wait()")])
def test_a_call_that_holds_the_loop_is_interrupted_where_it_hangs(bolt: Any, line: str, tmp_path: Path) -> None:
    earlier = signal.getsignal(signal.SIGURG)
    [status] = statuses(loaded(bolt, 0.2), str(tmp_path))
    assert status.failure is not None
    assert status.failure.component_id == "hangs"
    [report] = status.reports
    assert "did not return within 0.2 s (batch_timeout_secs)" in report.text
    assert report.tuple_text is not None
    assert "7" in report.tuple_text
    assert line in report.traceback
    assert signal.getsignal(signal.SIGURG) is earlier
    assert not notes_in(str(tmp_path))


def test_a_prepare_that_never_returns_is_interrupted(tmp_path: Path) -> None:
    [status] = statuses(loaded(WaitsInPrepare, 0.2), None)
    assert status.failure is not None
    assert status.failure.component_id == "hangs"
    assert "did not return within 0.2 s" in str(status.failure.error)


def test_a_call_that_cannot_be_interrupted_ends_its_process_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", hanging.__name__, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECS, check=False)
    assert ended.returncode == EXIT_STATUS
    assert "'hangs' (task " in ended.stderr
    assert 'tup["number"]' in ended.stderr

    [note] = notes_in(str(tmp_path))
    [status] = statuses(loaded(NeverMade, 0.2), str(tmp_path))  # Spark's next try of this partition
    assert status.number == 3
    assert note.failure == status.failure
    assert status.failure is not None
    assert status.failure.component_id == "hangs"
    [report] = status.reports
    assert 'tup["number"]' in report.traceback
    assert "asyncio" not in report.traceback


class NeverMade(BasicBolt):
    output_fields = "number"

    def __init__(self) -> None:
        raise AssertionError("the next try has called user code")

    def execute(self, tup: Tuple) -> None: ...
