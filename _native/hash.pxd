"""The hash of a fields grouping. It is the same in every process, platform and Python version (GRP-2)."""
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept

# Returned by a function that fails. A hash may have this value too, so Cython asks PyErr_Occurred().
cdef enum:
    HASH_FAILED = 0x5EED_FA11

cdef uint64_t stable_hash_of(object value) except? HASH_FAILED

# Hash of a value that is_ascii. Never fails.
cdef uint64_t hash_ascii(object text) noexcept

# Hash of the tuple of values[p] for each p in positions, without building the tuple. One position gives the hash of the bare value.
# If it raises, hash the values one by one to find the field.
cdef uint64_t stable_hash_at(tuple values, const Py_ssize_t* positions, Py_ssize_t count) except? HASH_FAILED


cdef inline bint is_ascii(object value) noexcept:
    """Return True for an exact str of ASCII characters, the common key."""
    return PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value)


# Fibonacci hashing. The high half of the product depends on every bit, so it also spreads a poor `__stable_hash__`. Multiply and shift are
# cheaper than a division.
cdef inline uint32_t group_of(uint64_t hashed, uint32_t key_groups) noexcept nogil:
    """Return the key group of a hash, 0 to key_groups - 1."""
    return <uint32_t>((((hashed * 0x9E3779B97F4A7C15ULL) >> 32) * key_groups) >> 32)
