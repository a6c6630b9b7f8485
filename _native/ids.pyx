"""Random ids of trees and deliveries: 64 bits, never 0, one generator per task (ACK-1)."""
import os
from weakref import WeakSet

cimport cython
from libc.stdint cimport uint64_t

# Generators that the operating system seeded. Copies in a forked child would draw the same ids as the parent.
cdef object os_seeded = WeakSet()


@cython.final
cdef class EdgeIds:
    """Generator of non-zero 64-bit ids.

    The same `seed` (an int, taken modulo 2**64) gives the same ids on every platform, in a forked child too. Without a seed, the
    operating system seeds the generator, and seeds it again in a forked child. Not for secrets: ids can be predicted.
    """

    def __cinit__(self, seed=None):
        self.reseed(seed)

    def draw(self):
        """Draw the next id."""
        return draw_edge(self)

    def reseed(self, seed=None):
        """Start again from `seed`, like a new generator."""
        if seed is None:
            self.expand_seed(int.from_bytes(os.urandom(8), "little"))
            os_seeded.add(self)
            return
        if not isinstance(seed, int):
            raise TypeError(f"EdgeIds: seed must be an int or None, not {type(seed).__name__}")
        self.expand_seed(seed & 0xFFFF_FFFF_FFFF_FFFF)
        os_seeded.discard(self)

    cdef void expand_seed(self, uint64_t seed) noexcept:
        # Two steps of splitmix64. It is a bijection, and the inputs differ, so at most one result is 0.
        self.s0 = spread(seed + 0x9E3779B97F4A7C15ULL)
        self.s1 = spread(seed + 0x3C6EF372FE94F82AULL)     # twice that, modulo 2**64


cdef uint64_t spread(uint64_t bits) noexcept nogil:
    """Output function of splitmix64 (Steele, Lea, Flood 2014)."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL
    return bits ^ (bits >> 31)


def _reseed_after_fork():
    for ids in list(os_seeded):
        ids.reseed()


if hasattr(os, "register_at_fork"):     # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_reseed_after_fork)
