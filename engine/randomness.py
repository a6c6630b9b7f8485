"""The one place where the engine draws randomness.

A run has one seed. Each user of randomness names itself and gets a stream of its own, so that what one draws never
depends on how often another did, and a seed replays a run.
"""

import os
import random
from typing import Final

_SEED_BITS: Final = 63
"""A seed that was drawn fits a signed 64-bit integer, so it can be given back in a TOML file."""


class RunRandom:
    """The randomness of one run: independent deterministic streams, one per path of names.

    >>> RunRandom(1).uint64("edge", 7) == RunRandom(1).uint64("edge", 7)
    True
    """

    __slots__ = ("seed",)

    def __init__(self, seed: int | None = None) -> None:
        """Take the seed, or draw one from the operating system; `seed` tells which."""
        self.seed: Final = int.from_bytes(os.urandom(8), "big") >> (64 - _SEED_BITS) if seed is None else seed

    def stream(self, *names: str | int) -> random.Random:
        """Return a new generator for this path of names, at its start."""
        # ascii() keeps ("a", "b") apart from ("ab",) and 1 from "1", and, unlike repr(), is the same in every Python; so is the
        # generator that a text seeds, by its SHA-512.
        return random.Random(ascii((self.seed, *names)))

    def uint64(self, *names: str | int) -> int:
        """Return the 64-bit number of this path of names (0 is possible), to seed a generator written in C."""
        return self.stream(*names).getrandbits(64)
