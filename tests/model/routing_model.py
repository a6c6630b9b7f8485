"""Model of the groupings: the tasks that each one chooses.

Only the stable hash comes from the engine; stable_hash_model.py checks it.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from engine.kernel import stable_hash

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


def group(hashed: int, groups: int) -> int:
    """Fibonacci hashing: the high half of the product, scaled to the number of groups."""
    return ((hashed * GOLDEN & MASK) >> 32) * groups >> 32


def key_of(values: Sequence[object], positions: Sequence[int]) -> object:
    """Value to hash: the value itself for one field, else the tuple of the values."""
    picked = tuple(values[position] for position in positions)
    return picked[0] if len(picked) == 1 else picked


def by_fields(values: Sequence[object], positions: Sequence[int], key_groups: int, tasks: int) -> int:
    """Index of the task that owns the key's group. Each task owns consecutive groups."""
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
