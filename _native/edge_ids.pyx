"""Random ids of trees and deliveries: 64 bits, never 0, one generator per task (ACK-1)."""
import os
from weakref import WeakSet

cimport cython
from libc.stdint cimport uint64_t

# Generators that the operating system seeded. A forked child holds copies of them, which would draw its parent's ids.
cdef object os_seeded = WeakSet()


@cython.final
cdef class EdgeIds:
    """Draws non-zero 64-bit ids.

    The same `seed` (an int, taken modulo 2**64) gives the same ids on every platform, in a forked child too. Without one the
    generator is seeded by the operating system, and again in a child after a fork. Not for secrets: ids can be predicted.
    """

    def __cinit__(self, seed=None):
        self.reseed(seed)

    def draw(self):
        """Draw the next id."""
        return draw_edge(self)

    def reseed(self, seed=None):
        """Start again from `seed`, as a new generator would."""
        if seed is None:
            self.expand(int.from_bytes(os.urandom(8), "little"))
            os_seeded.add(self)
            return
        if not isinstance(seed, int):
            raise TypeError(f"the seed of EdgeIds is an int or None, not {type(seed).__name__}")
        self.expand(seed & 0xFFFF_FFFF_FFFF_FFFF)
        os_seeded.discard(self)

    cdef void expand(self, uint64_t seed) noexcept:
        # Two steps of splitmix64: a bijection of two different inputs, so not both results are 0.
        self.s0 = spread(seed + 0x9E3779B97F4A7C15ULL)
        self.s1 = spread(seed + 0x3C6EF372FE94F82AULL)     # twice that, modulo 2**64


cdef uint64_t spread(uint64_t bits) noexcept nogil:
    """The output function of splitmix64 (Steele, Lea, Flood 2014)."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL
    return bits ^ (bits >> 31)


def _reseed_after_fork():
    for ids in list(os_seeded):
        ids.reseed()


if hasattr(os, "register_at_fork"):     # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_reseed_after_fork)
