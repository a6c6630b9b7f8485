"""Random schedules: the controller against a model of sets and a state table (FC-2 to FC-6)."""

import pytest

from tests.model.proofs import prove
from tests.tiers import cases


@pytest.mark.guarantee("FC-2", "FC-3", "FC-4", "FC-5", "FC-6")
def test_random_schedules_agree_with_the_model() -> None:
    prove("flow", cases(1000))
