"""The hash behind a fields grouping: the same in every process, platform and Python version (GRP-2)."""
from libc.stdint cimport uint32_t, uint64_t

# What a failing function returns. A hash may be this value too, so PyErr_Occurred() decides (Cython asks it).
cdef enum:
    HASH_FAILED = 0x5EED_FA11

cdef uint64_t stable_hash_of(object value) except? HASH_FAILED

# The hash of the tuple of values[p] for each p in positions, without building it; one position gives the bare value's.
# When it raises, hash the values one by one to learn which field it was.
cdef uint64_t stable_hash_at(tuple values, const Py_ssize_t* positions, Py_ssize_t count) except? HASH_FAILED


# Fibonacci hashing: the high half of the product depends on every bit, so a poor `__stable_hash__` is spread as well. Then
# multiply and shift: cheaper than a division.
cdef inline uint32_t group_of(uint64_t hashed, uint32_t key_groups) noexcept nogil:
    """The key group of a hash, 0 to key_groups - 1."""
    return <uint32_t>((((hashed * 0x9E3779B97F4A7C15ULL) >> 32) * key_groups) >> 32)
