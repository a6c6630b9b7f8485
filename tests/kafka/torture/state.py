"""Counts in the states of a group's processes, and their check (CP-10)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.state.sqlite.provider import SqliteProvider
from tests.checkpoint import killed
from tests.kafka.torture.journal import Life
from tests.kafka.torture.judge import Verdict


async def stored_counts(file: Path) -> Counter[int]:
    """How often each number was counted, in one file of state that nobody has open."""
    provider = SqliteProvider(file)
    await provider.open("tortured")
    try:
        return await killed.stored_counts(provider, "count", "tortured")
    finally:
        await provider.close()


def judge_counts(verdict: Verdict, counted: Counter[int], lives: Sequence[Life], numbers: Iterable[int]) -> None:
    """No number is missing, and none is counted more often than emitted. Numbers never in flight at a kill count exactly once."""
    emitted = Counter(emission.number for life in lives for emission in life.emissions.values())
    passed = Counter(emission.number for life in lives for emission in life.emissions.values() if emission.done is not None)
    verdict.violated("numbers are missing in the states", sorted(set(numbers) - counted.keys()))
    verdict.violated(
        "numbers are counted more often than they were emitted", [one for one in sorted(counted) if counted[one] > passed[one]]
    )
    verdict.counts["counted exactly once"] = sum(count == 1 for count in counted.values())
    verdict.counts["counted more than once"] = sum(count > 1 for count in counted.values())
    verdict.counts["emitted more than once"] = sum(count > 1 for count in emitted.values())
