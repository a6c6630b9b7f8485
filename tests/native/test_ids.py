"""EdgeIds: the published generator, bit for bit; its own sequence in a forked child."""

import copy
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _native.ids import EdgeIds

MASK = 2**64 - 1


def splitmix64(seed: int) -> Iterator[int]:
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        bits = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
        yield bits ^ (bits >> 31)


def xoroshiro128plusplus(s0: int, s1: int) -> Iterator[int]:
    def rotated(bits: int, by: int) -> int:
        return ((bits << by) | (bits >> (64 - by))) & MASK

    while True:
        yield (rotated((s0 + s1) & MASK, 17) + s0) & MASK
        s1 ^= s0
        s0, s1 = rotated(s0, 49) ^ s1 ^ ((s1 << 21) & MASK), rotated(s1, 28)


def drawn(ids: EdgeIds, count: int) -> list[int]:
    return [ids.draw() for _ in range(count)]


def test_the_references_give_the_published_values() -> None:
    assert list(islice(splitmix64(1234567), 2)) == [6457827717110365317, 3203168211198807973]
    assert list(islice(xoroshiro128plusplus(1, 2), 3)) == [393217, 669327710093319, 1732421326133921491]


@pytest.mark.guarantee("ACK-1")
@given(seed=st.integers(-(2**70), 2**70))
def test_a_seed_gives_the_published_sequence(seed: int) -> None:
    expected = xoroshiro128plusplus(*islice(splitmix64(seed & MASK), 2))
    assert drawn(EdgeIds(seed), 20) == list(islice(expected, 20))


@pytest.mark.guarantee("ACK-1")
def test_ids_are_not_zero_have_64_bits_and_differ() -> None:
    ids = drawn(EdgeIds(), 20_000)
    assert 0 not in ids
    assert len(set(ids)) == len(ids)
    for bit in range(64):
        assert 9_400 < sum(one >> bit & 1 for one in ids) < 10_600  # 8 standard deviations


def test_generators_without_a_seed_differ() -> None:
    assert drawn(EdgeIds(), 2) != drawn(EdgeIds(), 2)


def test_reseed_restarts_the_sequence() -> None:
    ids = EdgeIds(7)
    first = drawn(ids, 3)
    ids.reseed(7)
    assert drawn(ids, 3) == first
    ids.reseed()
    assert drawn(ids, 3) != first


@pytest.mark.parametrize("seed", ["1", 1.0, b"1"])
def test_a_seed_that_is_no_int_is_refused(seed: object) -> None:
    with pytest.raises(TypeError, match="int or None, not"):
        EdgeIds(seed)  # type: ignore[arg-type]


def test_a_generator_cannot_be_copied() -> None:
    with pytest.raises(TypeError):
        copy.copy(EdgeIds(1))


def test_a_generator_is_freed() -> None:
    ids = EdgeIds()
    gone = weakref.ref(ids)
    del ids
    gc.collect()
    assert gone() is None


FORK = r"""
import os
from _native.ids import EdgeIds

system, seeded, now_seeded, now_system = EdgeIds(), EdgeIds(7), EdgeIds(), EdgeIds(8)
now_seeded.reseed(9)
now_system.reseed()
for _ in range(3):
    seeded.draw()
child = os.fork()
line = " ".join(str(ids.draw()) for ids in (system, now_system, seeded, now_seeded))
os.write(1, line.encode() + b"\n")      # in one piece, between parent and child
if child:
    os.waitpid(child, 0)
else:
    os._exit(0)
"""


@pytest.mark.guarantee("ACK-1")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_without_a_seed_draws_other_ids() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    one, other = (line.split() for line in done.stdout.splitlines())
    assert one[0] != other[0]  # seeded by the system
    assert one[1] != other[1]
    assert one[2:] == other[2:]  # seeded by the user
    assert int(one[2]) == drawn(EdgeIds(7), 4)[3]
