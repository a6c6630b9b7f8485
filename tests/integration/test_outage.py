"""A service under load whose backend fails temporarily, and whose process is killed (SV-1, SV-2, SV-3, SV-6).

`python -m tests.soak.outage` and `python -m tests.soak.killed_service` run the same for a minute, also with bolts in processes.
"""

import secrets
from collections import Counter
from pathlib import Path

import pytest

from tests.kills.bolt_forms import BOLTS
from tests.soak import killed_service
from tests.soak.outage import play


@pytest.mark.guarantee("SV-1", "SV-2", "SV-3", "SV-6")
async def test_a_service_survives_an_outage_of_its_backend(tmp_path: Path) -> None:
    bolts = secrets.choice(BOLTS)
    print(f"{bolts} bolts")
    outage = await play(4, 1.5, tmp_path, bolts)
    statuses = Counter(status for status, _ in outage.answers.values())
    assert outage.faults() == []
    assert statuses.keys() == {200, 502}


@pytest.mark.deep
@pytest.mark.guarantee("SV-6", "CP-10")
async def test_a_killed_service_loses_no_answered_request_and_mixes_none(tmp_path: Path) -> None:
    load, faults = await killed_service.play(8, 2, 2, tmp_path, seed=1, bolts="bursts")
    statuses = Counter(status for status, _ in load.outage.answers.values())
    assert faults == []
    assert statuses.keys() == {200, 502}
    assert load.broken.total() > 0, "no kill has hit a request"
