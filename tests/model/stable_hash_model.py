"""Model of the stable hash in plain Python, for tests/native/test_stable_hash.py. It defines the stored format.

Numbers are fractions, their residues come from modular inverses, bytes are slices, and nothing has a fixed width.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isinf, isnan, isqrt
from uuid import UUID

WORD = 2**64
PRIME = 2**61 - 1


def root_fraction(prime: int) -> int:
    """First 64 bits of the fraction of its square root."""
    return isqrt(prime << 128) % WORD


KEY_1, KEY_2, KEY_3, STR, BYTES, NUMBER, TUPLE, NONE, OF_UUID, ENUM, NAIVE, AWARE = map(
    root_fraction, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37]
)


def model_hash(value: object) -> int:
    match value:
        case None:
            return scrambled(0, NONE)
        case UUID():
            return of_bytes(value.bytes, OF_UUID)
        case datetime():
            return of_datetime(value)
        case int() | float() | Decimal():
            return scrambled(residue(value), NUMBER)
        case str():
            return of_bytes(value.encode("utf-8", "surrogatepass"), STR)
        case Enum():
            return mixed(mixed(ENUM, model_hash(type(value).__qualname__)), model_hash(value.name))
        case bytes():
            return of_bytes(value, BYTES)
        case [one]:
            return model_hash(one)
        case tuple() | list():
            state = TUPLE ^ len(value)
            for item in value:
                state = mixed(state, model_hash(item))
            return state
    raise TypeError(type(value))


def residue(number: int | float | Decimal) -> int:
    if isnan(number):
        return PRIME + 3
    if isinf(number):
        return PRIME + 1 if number > 0 else PRIME + 2
    exact = Fraction(number)
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


def of_datetime(time: datetime) -> int:
    kind = NAIVE if time.utcoffset() is None else AWARE
    if kind == AWARE:
        time = (time.replace(fold=0)).astimezone(UTC).replace(tzinfo=None)
    return scrambled((time - datetime.min) // timedelta(microseconds=1) + 86_400_000_000, kind)


def of_bytes(octets: bytes, state: int) -> int:
    size = len(octets)
    last = max(size - 1, 0) // 16 * 16  # where the last block of 16 bytes or fewer begins
    for at in range(0, last, 16):
        state = folded(little(octets[at : at + 8]) ^ KEY_1, little(octets[at + 8 : at + 16]) ^ state)
    if size > 16:
        first, second = little(octets[-16:-8]), little(octets[-8:])
    elif size >= 8:
        first = little(octets[:4]) << 32 | little(octets[size // 8 * 4 :][:4])
        second = little(octets[-4:]) << 32 | little(octets[size - 4 - size // 8 * 4 :][:4])
    elif size >= 4:
        first, second = little(octets[:4]) * (1 + 2**32), little(octets[-4:]) * (1 + 2**32)
    else:
        first = int.from_bytes(bytes([octets[0], octets[size // 2], octets[-1]])) if octets else 0
        second = 0
    return folded(folded(first ^ KEY_1, second ^ state) ^ KEY_2, size ^ KEY_3)


def little(octets: bytes) -> int:
    return int.from_bytes(octets, "little")


def mixed(state: int, hashed: int) -> int:
    return folded(state ^ KEY_1, hashed ^ KEY_2)


def scrambled(bits: int, kind: int) -> int:
    return folded(folded(bits ^ KEY_1, kind) ^ KEY_2, KEY_3)


def folded(a: int, b: int) -> int:
    high, low = divmod(a * b, WORD)
    return high ^ low


def model_group(hashed: int, key_groups: int) -> int:
    """Multiplicative hash, scaled to `key_groups`."""
    high = hashed * 0x9E3779B97F4A7C15 % WORD >> 32
    return high * key_groups // 2**32
