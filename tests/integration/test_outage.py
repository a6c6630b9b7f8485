"""A downstream service fails temporarily under load (SV-1, SV-2, SV-3). `python -m tests.soak.outage` runs the same for a minute."""

from collections import Counter
from pathlib import Path

import pytest

from tests.soak.outage import play


@pytest.mark.guarantee("SV-1", "SV-2", "SV-3")
async def test_a_service_survives_an_outage_of_its_backend(tmp_path: Path) -> None:
    outage = await play(4, 1.5, tmp_path)
    statuses = Counter(status for status, _ in outage.answers.values())
    assert outage.faults() == []
    assert statuses.keys() == {200, 502}
