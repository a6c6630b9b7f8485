"""Randomness of a run: the only module of the engine that draws random numbers.

A run has one seed, and the seed replays the run. Each user of randomness has a name and a stream of its own, so the draws of one user
do not change those of another.
"""

import os
import random
from typing import Final

_SEED_BITS: Final = 63
"""Bits of a drawn seed: it fits a signed 64-bit integer, so a TOML file can hold it."""


class RunRandom:
    """Random streams of one run: independent and deterministic, one per path of names.

    >>> RunRandom(1).uint64("edge", 7) == RunRandom(1).uint64("edge", 7)
    True
    """

    __slots__ = ("seed",)

    def __init__(self, seed: int | None = None) -> None:
        """Use the seed, or draw one from the operating system. The attribute `seed` has it."""
        self.seed: Final = int.from_bytes(os.urandom(8), "big") >> (64 - _SEED_BITS) if seed is None else seed

    def stream(self, *names: str | int) -> random.Random:
        """Return a new generator for this path of names, at its first draw."""
        # ascii() distinguishes ("a", "b") from ("ab",) and 1 from "1". Unlike repr(), its result is the same in all versions of Python.
        # So is the generator that a string seeds, because Python hashes it by SHA-512.
        return random.Random(ascii((self.seed, *names)))

    def uint64(self, *names: str | int) -> int:
        """Return the 64-bit number of this path of names, to seed a generator in C. It may be 0."""
        return self.stream(*names).getrandbits(64)
