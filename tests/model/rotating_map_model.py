"""Model of RotatingMap: a list of entries with ages, for tests/native/test_rotating_map.py."""

from dataclasses import dataclass, field


@dataclass
class Entry:
    key: int
    value: str
    rotations_survived: int = 0


@dataclass
class RotatingMapModel:
    buckets: int
    entries: list[Entry] = field(default_factory=list)

    def put(self, key: int, value: str) -> None:
        self.remove(key)
        self.entries.append(Entry(key, value))

    def get(self, key: int) -> str | None:
        return next((entry.value for entry in self.entries if entry.key == key), None)

    def remove(self, key: int) -> str | None:
        value = self.get(key)
        self.entries = [entry for entry in self.entries if entry.key != key]
        return value

    def rotate(self) -> dict[int, str]:
        for entry in self.entries:
            entry.rotations_survived += 1
        dead = {entry.key: entry.value for entry in self.entries if entry.rotations_survived == self.buckets}
        self.entries = [entry for entry in self.entries if entry.key not in dead]
        return dead

    def items(self) -> list[tuple[int, str]]:
        return sorted((entry.key, entry.value) for entry in self.entries)
