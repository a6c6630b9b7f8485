"""Randomness of a run. No other module of the engine draws random numbers.

A run has one seed, and the seed reproduces the run. Each user of randomness has a name and its own stream. So the draws of one user do not
change the draws of another.
"""

import os
import random
from typing import Final

_SEED_BITS: Final = 63
"""Bits of a drawn seed. The seed fits a signed 64-bit integer, so a TOML file can store it."""


class RunRandom:
    """Independent and deterministic random streams of one run, one for each path of names.

    >>> RunRandom(1).uint64("edge", 7) == RunRandom(1).uint64("edge", 7)
    True
    """

    __slots__ = ("seed",)

    def __init__(self, seed: int | None = None) -> None:
        """Use the given seed, or draw one from the operating system. The attribute `seed` stores it."""
        self.seed: Final = int.from_bytes(os.urandom(8), "big") >> (64 - _SEED_BITS) if seed is None else seed

    def stream(self, *names: str | int) -> random.Random:
        """Return a new generator for this path of names. Each call begins at the first draw."""
        # ascii() distinguishes ("a", "b") from ("ab",) and 1 from "1". Unlike repr(), its result is the same in all versions of Python.
        # A generator with a string seed is also the same, because Python hashes the string by SHA-512.
        return random.Random(ascii((self.seed, *names)))

    def uint64(self, *names: str | int) -> int:
        """Return the 64-bit number of this path of names. The number seeds a generator in C, and may be 0."""
        return self.stream(*names).getrandbits(64)
