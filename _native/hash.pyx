"""The hash of a fields grouping. It is the same in every process, platform and Python version (GRP-2).

Values that compare equal have equal hashes, across types too. A number is reduced to its residue modulo the prime 2**61 - 1.
A fraction p/q is p times the inverse of q, like in CPython's hash on 64-bit machines. The interpreter's own modulus depends on the
platform, so this module does not use it. Text is hashed as UTF-8, so its width in memory does not matter. A list has the hash of the tuple of its
items. A list or tuple with one item has the hash of that item (CP-9).

The layout of stored state depends on these hashes, so a change of any constant changes the storage format.
"""
from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.tuple cimport PyTuple_CheckExact
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact, PyUnicode_GET_LENGTH
from libc.math cimport fabs, frexp, isinf, isnan
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>

    /* Fractions of the square roots of 2, 3, 5, ...: keys of the mixing, then of the kinds. */
    #define KEY_1           UINT64_C(0x6A09E667F3BCC908)
    #define KEY_2           UINT64_C(0xBB67AE8584CAA73B)
    #define KEY_3           UINT64_C(0x3C6EF372FE94F82B)
    #define KIND_STR        UINT64_C(0xA54FF53A5F1D36F1)
    #define KIND_BYTES      UINT64_C(0x510E527FADE682D1)
    #define KIND_NUMBER     UINT64_C(0x9B05688C2B3E6C1F)
    #define KIND_TUPLE      UINT64_C(0x1F83D9ABFB41BD6B)
    #define KIND_NONE       UINT64_C(0x5BE0CD19137E2179)
    #define KIND_UUID       UINT64_C(0xCBBB9D5DC1059ED8)
    #define KIND_ENUM       UINT64_C(0x629A292A367CD507)
    #define KIND_NAIVE_TIME UINT64_C(0x9159015A3070DD17)
    #define KIND_AWARE_TIME UINT64_C(0x152FECD8F70E5939)

    /* The modulus of numbers; then residues of infinities and NaN, larger than that of any number. */
    #define PRIME           UINT64_C(0x1FFFFFFFFFFFFFFF)
    #define PLUS_INFINITY   (PRIME + 1)
    #define MINUS_INFINITY  (PRIME + 2)
    #define NOT_A_NUMBER    (PRIME + 3)

    static CYTHON_INLINE uint64_t full_product(uint64_t a, uint64_t b, uint64_t *high) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128)a * b;
        *high = (uint64_t)(product >> 64);
        return (uint64_t)product;
    #else
        uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
        uint64_t low = a0 * b0;
        uint64_t middle = a1 * b0 + (low >> 32);
        uint64_t carried = a0 * b1 + (uint32_t)middle;
        *high = a1 * b1 + (middle >> 32) + (carried >> 32);
        return (carried << 32) | (uint32_t)low;
    #endif
    }
    """
    const uint64_t KEY_1, KEY_2, KEY_3
    const uint64_t KIND_STR, KIND_BYTES, KIND_NUMBER, KIND_TUPLE, KIND_NONE
    const uint64_t KIND_UUID, KIND_ENUM, KIND_NAIVE_TIME, KIND_AWARE_TIME
    const uint64_t PRIME, PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER
    uint64_t full_product(uint64_t a, uint64_t b, uint64_t* high) noexcept nogil

cdef extern from "Python.h":
    const unsigned char* PyUnicode_1BYTE_DATA(object text) noexcept
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) noexcept

cdef enum:
    MAX_DEPTH = 64


def stable_hash(value):
    """Return the 64-bit hash of a value. Raises TypeError if its type has no stable hash."""
    return stable_hash_of(value)


def stable_hash_fields(values, positions):
    """Return the hash of the tuple of the values at `positions`, as a fields grouping on them computes it."""
    cdef Py_ssize_t count = len(positions), i
    cdef Py_ssize_t* chosen = <Py_ssize_t*>PyMem_Malloc(max(count, 1) * sizeof(Py_ssize_t))
    if chosen is NULL:
        raise MemoryError
    try:
        for i in range(count):
            chosen[i] = positions[i]
        return stable_hash_at(values, chosen, count)
    finally:
        PyMem_Free(chosen)


def key_group(value, key_groups):
    """Return the group of a value, 0 to key_groups - 1. State and fields groupings agree on it."""
    if not 1 <= key_groups <= 0xFFFF_FFFF:
        raise ValueError(f"key_groups is {key_groups}, but must be from 1 to 2**32 - 1")
    return group_of(stable_hash_of(value), key_groups)


cdef uint64_t stable_hash_of(object value) except? HASH_FAILED:
    if is_ascii(value):      # 2 ns faster than through hash_value
        return hash_ascii(value)
    return hash_value(value, 0)


cdef uint64_t hash_ascii(object text) noexcept:
    return hash_bytes(PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text), KIND_STR)


cdef uint64_t stable_hash_at(tuple values, const Py_ssize_t* positions, Py_ssize_t count) except? HASH_FAILED:
    cdef Py_ssize_t i
    cdef uint64_t state
    if count == 1:
        return stable_hash_of(values[positions[0]])
    state = start_of_items(count)
    for i in range(count):
        state = mixed(state, hash_value(values[positions[i]], 1))
    return state


# ---- By type -------------------------------------------------------------------------------------------------------------

cdef uint64_t hash_value(object value, int depth) except? HASH_FAILED:
    if PyUnicode_CheckExact(value):
        return hash_str(value)
    if PyLong_CheckExact(value):
        return scrambled(int_residue(value), KIND_NUMBER)
    if PyFloat_CheckExact(value):
        return scrambled(float_residue(PyFloat_AS_DOUBLE(value)), KIND_NUMBER)
    if PyBytes_CheckExact(value):
        return hash_bytes(<const unsigned char*>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), KIND_BYTES)
    if PyTuple_CheckExact(value) or PyList_CheckExact(value):
        return hash_items(value, depth)
    if value is None:
        return scrambled(0, KIND_NONE)
    if PyBool_Check(value):
        return scrambled(value is True, KIND_NUMBER)
    return hash_rare(value, depth)


# The other types that have a hash. The first value of such a type imports them: decimal and uuid take milliseconds, which
# most topologies need not pay.
cdef object Decimal = None, datetime = None, UUID = None, Enum = None, Flag = None


cdef int import_rare_types() except -1:
    global Decimal, datetime, UUID, Enum, Flag
    from datetime import datetime
    from decimal import Decimal
    from enum import Enum, Flag
    from uuid import UUID
    return 0


cdef uint64_t hash_rare(object value, int depth) except? HASH_FAILED:
    cdef type kind = type(value)
    if Flag is None:
        import_rare_types()
    if kind is Decimal:
        return scrambled(decimal_residue(value), KIND_NUMBER)
    if kind is datetime:
        return hash_datetime(value)
    if kind is UUID:
        return hash_uuid(value.bytes)
    own = getattr(kind, "__stable_hash__", None)
    if own is not None:
        return own_hash(kind, own(value))
    plain = plain_base(value, kind)
    if plain is not None:
        if kind.__eq__ is not type(plain).__eq__ and value == value and not value == plain:
            raise TypeError(f"{type_name(kind)} value {value!r} does not equal its {type_name(type(plain))}: {HINT}")
        return hash_value(plain, depth)
    if issubclass(kind, Flag):
        return hash_pair(kind.__qualname__, value._value_, KIND_ENUM)
    if issubclass(kind, Enum):
        return hash_pair(kind.__qualname__, value._name_, KIND_ENUM)
    raise TypeError(f"{type_name(kind)} has no stable hash: {HINT}")


cdef object plain_base(object value, type kind):
    """Return the value as an instance of the plain hashable type that it derives from, None without such a type."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    if isinstance(value, tuple):
        return tuple.__getitem__(value, slice(None))
    if isinstance(value, list):
        return list.__getitem__(value, slice(None))
    if issubclass(kind, Decimal):
        return Decimal(value)
    if issubclass(kind, datetime):
        return datetime.combine(value.date(), value.timetz())
    if issubclass(kind, UUID):
        return UUID(int=value.int)
    return None


cdef uint64_t own_hash(type kind, object hashed) except? HASH_FAILED:
    if not isinstance(hashed, int):
        raise TypeError(f"{type_name(kind)}.__stable_hash__() must return an int, not {type_name(type(hashed))}")
    return <uint64_t>(hashed & 0xFFFF_FFFF_FFFF_FFFF)


cdef str type_name(type kind):
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


cdef str HINT = (
    "use None, bool, int, float, str, bytes, datetime, Decimal, UUID, an Enum, a tuple or list of these, or a class with "
    "a method __stable_hash__(self) -> int that is the same for equal values"
)


# ---- Text, bytes, items --------------------------------------------------------------------------------------------------

cdef uint64_t hash_str(str text) except? HASH_FAILED:
    cdef Py_ssize_t size
    cdef const char* utf8
    cdef bytes encoded
    if PyUnicode_IS_COMPACT_ASCII(text):
        return hash_ascii(text)
    try:
        utf8 = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:      # a lone surrogate
        encoded = text.encode("utf-8", "surrogatepass")
        return hash_bytes(<const unsigned char*>PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded), KIND_STR)
    return hash_bytes(<const unsigned char*>utf8, size, KIND_STR)


cdef uint64_t hash_bytes(const unsigned char* at, Py_ssize_t size, uint64_t kind) noexcept nogil:
    """Multiply and fold 16 bytes a step, like wyhash (Wang Yi). The last words of a step may overlap."""
    cdef uint64_t first, second
    cdef Py_ssize_t left = size, apart
    while left > 16:
        kind = folded(word(at) ^ KEY_1, word(at + 8) ^ kind)
        at += 16
        left -= 16
    if size > 16:                   # 1 to 16 bytes are left: read the last 16 of all
        first = word(at + left - 16)
        second = word(at + left - 8)
    elif size >= 4:                 # four half words cover 4 to 16 bytes without another branch
        apart = (size >> 3) << 2
        first = (half_word(at) << 32) | half_word(at + apart)
        second = (half_word(at + size - 4) << 32) | half_word(at + size - 4 - apart)
    elif size > 0:                  # these three cover each byte, and the size is hashed separately
        first = (<uint64_t>at[0] << 16) | (<uint64_t>at[size >> 1] << 8) | at[size - 1]
        second = 0
    else:
        first = second = 0
    return folded(folded(first ^ KEY_1, second ^ kind) ^ KEY_2, <uint64_t>size ^ KEY_3)


cdef uint64_t hash_items(object items, int depth) except? HASH_FAILED:
    """Return the hash of a tuple or list."""
    cdef Py_ssize_t count = len(items)
    cdef uint64_t state
    if depth == MAX_DEPTH:
        raise TypeError(f"a tuple or list nested more than {MAX_DEPTH} deep has no stable hash")
    if count == 1:
        return hash_value(items[0], depth + 1)
    state = start_of_items(count)
    for item in items:
        state = mixed(state, hash_value(item, depth + 1))
    return state


cdef uint64_t hash_pair(object first, object second, uint64_t kind) except? HASH_FAILED:
    return mixed(mixed(kind, hash_value(first, 1)), hash_value(second, 1))


cdef uint64_t hash_uuid(bytes octets) noexcept:
    return hash_bytes(<const unsigned char*>PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets), KIND_UUID)


# ---- Numbers and times ---------------------------------------------------------------------------------------------------

cdef uint64_t int_residue(object number) except? HASH_FAILED:
    cdef int overflow
    cdef int64_t small = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow:
        return <uint64_t>(number % 0x1FFF_FFFF_FFFF_FFFF)
    cdef uint64_t magnitude = 0 - <uint64_t>small if small < 0 else <uint64_t>small
    return signed_residue(reduced((magnitude & PRIME) + (magnitude >> 61)), small < 0)


cdef uint64_t float_residue(double number) noexcept nogil:
    """Return mantissa times 2**exponent. Modulo 2**61 - 1, a power of two only rotates the 61 bits."""
    cdef int exponent
    cdef uint64_t mantissa
    if isnan(number):
        return NOT_A_NUMBER
    if isinf(number):
        return PLUS_INFINITY if number > 0 else MINUS_INFINITY
    mantissa = <uint64_t>(frexp(fabs(number), &exponent) * 9007199254740992.0)     # times 2**53 is an integer
    exponent = (exponent - 53) % 61                                                # Python's %: 0 to 60
    return signed_residue(((mantissa << exponent) & PRIME) | (mantissa >> (61 - exponent)), number < 0)


cdef uint64_t decimal_residue(object number) except? HASH_FAILED:
    """Return digits times 10**exponent. Modulo a prime, an exponent counts modulo the prime less one, so it may be negative."""
    cdef uint64_t residue = 0
    sign, digits, exponent = number.as_tuple()
    if exponent == "F":
        return MINUS_INFINITY if sign else PLUS_INFINITY
    if exponent == "n" or exponent == "N":
        return NOT_A_NUMBER
    for digit in <tuple>digits:
        residue = reduced(residue_product(residue, 10) + <uint64_t>digit)
    residue = residue_product(residue, residue_power(10, exponent % 0x1FFF_FFFF_FFFF_FFFE))
    return signed_residue(residue, sign)


cdef uint64_t residue_power(uint64_t base, uint64_t exponent) noexcept nogil:
    cdef uint64_t power = 1
    while exponent:
        if exponent & 1:
            power = residue_product(power, base)
        base = residue_product(base, base)
        exponent >>= 1
    return power


cdef inline uint64_t residue_product(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint64_t high, low = full_product(a, b, &high)
    return reduced((low & PRIME) + ((low >> 61) | (high << 3)))


cdef inline uint64_t reduced(uint64_t below_twice_the_prime) noexcept nogil:
    return below_twice_the_prime - PRIME if below_twice_the_prime >= PRIME else below_twice_the_prime


cdef inline uint64_t signed_residue(uint64_t residue, bint negative) noexcept nogil:
    return PRIME - residue if negative and residue else residue


cdef uint64_t hash_datetime(object time) except? HASH_FAILED:
    """Hash the microseconds since year 1, in UTC if the time has an offset. Equality across folds needs the time of `fold=0`."""
    if time.fold:
        time = time.replace(fold=0)
    cdef int64_t minutes = (<int64_t>time.toordinal() * 24 + <int64_t>time.hour) * 60 + <int64_t>time.minute
    cdef int64_t micros = (minutes * 60 + <int64_t>time.second) * 1_000_000 + <int64_t>time.microsecond
    offset = time.utcoffset()
    if offset is None:
        return scrambled(<uint64_t>micros, KIND_NAIVE_TIME)
    micros -= (<int64_t>offset.days * 86_400 + <int64_t>offset.seconds) * 1_000_000 + <int64_t>offset.microseconds
    return scrambled(<uint64_t>micros, KIND_AWARE_TIME)


# ---- Mixing --------------------------------------------------------------------------------------------------------------

cdef inline uint64_t start_of_items(Py_ssize_t count) noexcept nogil:
    return KIND_TUPLE ^ <uint64_t>count


cdef inline uint64_t mixed(uint64_t state, uint64_t hashed) noexcept nogil:
    """Return the hash state after one more item."""
    return folded(state ^ KEY_1, hashed ^ KEY_2)


cdef inline uint64_t scrambled(uint64_t bits, uint64_t kind) noexcept nogil:
    return folded(folded(bits ^ KEY_1, kind) ^ KEY_2, KEY_3)


cdef inline uint64_t folded(uint64_t a, uint64_t b) noexcept nogil:
    """Return both halves of the 128-bit product, XORed."""
    cdef uint64_t high, low = full_product(a, b, &high)
    return low ^ high


cdef inline uint64_t word(const unsigned char* at) noexcept nogil:
    """Read eight bytes as little endian on every machine. Compilers emit a single load."""
    return half_word(at) | (half_word(at + 4) << 32)


cdef inline uint64_t half_word(const unsigned char* at) noexcept nogil:
    return <uint64_t>at[0] | (<uint64_t>at[1] << 8) | (<uint64_t>at[2] << 16) | (<uint64_t>at[3] << 24)
