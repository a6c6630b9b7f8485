"""Random ids of trees and deliveries: 64 bits, never 0, one generator per task (ACK-1)."""
cimport cython
from libc.stdint cimport uint64_t


@cython.final
cdef class EdgeIds:
    cdef uint64_t s0, s1                # never both 0, because xoroshiro could not leave that state
    cdef object __weakref__

    cdef void expand_seed(self, uint64_t seed) noexcept


# xoroshiro128++ (Blackman, Vigna 2019). The variants ending in one "+" save a rotation, but their lowest bit is linear over
# GF(2). A ledger XORs ids, so the low bits of such ids would cancel in fixed patterns.
cdef inline uint64_t draw_edge(EdgeIds ids) noexcept:
    """Draw the next id. Defined in the header, so that modules which cimport it can inline it."""
    cdef uint64_t a, b, drawn = 0
    while drawn == 0:                   # an edge of 0 would not change the ledger's XOR; happens once in 2**64 draws
        a = ids.s0
        b = ids.s1
        drawn = rotated(a + b, 17) + a
        b ^= a
        ids.s0 = rotated(a, 49) ^ b ^ (b << 21)
        ids.s1 = rotated(b, 28)
    return drawn


cdef inline uint64_t rotated(uint64_t bits, int by) noexcept nogil:
    return (bits << by) | (bits >> (64 - by))
