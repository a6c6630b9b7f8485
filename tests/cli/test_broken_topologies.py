"""A broken topology file gives one clear error with the place and a hint, and the right exit status."""

from pathlib import Path

import pytest

from tests.cli.broken_cases import CASES
from tests.cli.broken_topologies import Broken, normalised, run


@pytest.mark.guarantee("RUN-4")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_file_gives_one_clear_error(case: Broken, tmp_path: Path) -> None:
    seen = run(case, tmp_path)

    errors = normalised(seen.errors, tmp_path)
    if isinstance(case.seen, str):
        assert errors == case.seen
    else:
        assert [part for part in case.seen if part not in errors] == [], errors
    assert seen.exit_status == case.exit_status
    assert seen.output == ""
    assert "Traceback" not in errors or "Fix: " in errors


def test_ten_kinds_of_faults_are_refused_before_the_run() -> None:
    assert sum(case.exit_status == 2 for case in CASES) >= 10
