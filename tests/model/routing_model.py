"""Which tasks a grouping picks, told in plain words: the oracle of the routing tests.

Only the stable hash itself is taken from the engine; it has a model of its own.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from engine.kernel import stable_hash

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


def group(hashed: int, groups: int) -> int:
    """Fibonacci hashing: the high half of the product, scaled to the groups."""
    return ((hashed * GOLDEN & MASK) >> 32) * groups >> 32


def key_of(values: Sequence[object], positions: Sequence[int]) -> object:
    """What is hashed: the value itself where there is one field, else the tuple of the values."""
    picked = tuple(values[position] for position in positions)
    return picked[0] if len(picked) == 1 else picked


def by_fields(values: Sequence[object], positions: Sequence[int], key_groups: int, tasks: int) -> int:
    """The index of the task that owns the key's group; each task owns a run of groups."""
    owners = [group_number * tasks // key_groups for group_number in range(key_groups)]
    return owners[group(stable_hash(key_of(values, positions)), key_groups)]


def candidates(key: object, tasks: int) -> tuple[int, int]:
    """The two tasks among which a partial-key grouping chooses."""
    hashed = stable_hash(key)
    return group(hashed, tasks), group((hashed ^ hashed >> 31) * 0xD6E8FEB86659FD93 & MASK, tasks)


@dataclass
class PartialKeyModel:
    tasks: int
    sent: Counter[Hashable] = field(default_factory=Counter)

    def choose(self, key: object) -> int:
        first, second = candidates(key, self.tasks)
        chosen = second if self.sent[second] < self.sent[first] else first
        self.sent[chosen] += 1
        return chosen
