"""Pauses between the instances of a task, and between renewals, as pure objects (SV-1, SV-3)."""

import pytest

from engine.runtime.restart_policy import LIVED_SECS, FailureStreak, RestartPolicy

DOUBLED = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@pytest.mark.guarantee("SV-3")
def test_the_pause_doubles_while_instances_die_young() -> None:
    policy, now, pauses = RestartPolicy(3, 60.0), 100.0, []
    for _ in range(8):
        pauses.append(policy.next_pause_secs(now))
        now += pauses[-1] + LIVED_SECS - 0.1
    assert pauses == [0.0, *DOUBLED]


@pytest.mark.guarantee("SV-3")
def test_an_instance_that_lived_long_ends_the_pauses() -> None:
    policy = RestartPolicy(3, 60.0)
    assert [policy.next_pause_secs(0.0), policy.next_pause_secs(1.0), policy.next_pause_secs(3.0)] == [0.0, 1.0, 2.0]
    assert policy.next_pause_secs(5.0 + LIVED_SECS) == 0.0
    assert policy.next_pause_secs(6.0 + LIVED_SECS) == 1.0


@pytest.mark.guarantee("SV-1")
def test_the_pause_between_two_renewals_doubles_until_a_success() -> None:
    streak, now = FailureStreak(1), 0.0
    assert streak.note_failure(now, 0)
    for pause in DOUBLED:
        streak.note_renewal(now)
        assert not streak.note_failure(now + pause - 0.1, 0)
        assert streak.note_failure(now + pause, 0)
        now += pause
    assert streak.note_failure(now, 1), "a call succeeded in between"
    streak.note_renewal(now)
    assert not streak.note_failure(now + 0.9, 1)
    assert streak.note_failure(now + 1.0, 1)
