"""The acked offsets as a text: what comes back, how long it may be, and what of others is not read (KS-5, KS-7)."""

import base64
import random
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.acked_set import PLENTY, CommitNote, count, decode, encode, moved_to, shown_name, written_name

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
GAPS = st.lists(st.tuples(st.integers(0, 2**20) | st.integers(0, 3), st.integers(1, 2**20) | st.integers(1, 3)), max_size=60)
BASES = st.integers(0, 2**20) | st.integers(2**62, 2**62 + 9)


def runs_above(base: int, gaps: list[tuple[int, int]]) -> list[int]:
    """Ascending start, stop, start, stop…"""
    runs: list[int] = []
    for gap, length in gaps:
        start = (runs[-1] if runs else base) + gap
        runs += [start, start + length]
    return runs


@pytest.mark.guarantee("KS-7")
@given(topology=NAMES, base=BASES, gaps=GAPS)
def test_what_is_written_is_read(topology: str, base: int, gaps: list[tuple[int, int]]) -> None:
    runs = runs_above(base, gaps)
    metadata, left_out = encode(topology, base, runs, 2**20)
    assert left_out == 0
    assert decode(metadata) == CommitNote(written_name(topology), base, tuple(runs))


@pytest.mark.guarantee("KS-7")
@given(topology=NAMES, base=BASES, gaps=GAPS, most_bytes=st.integers(0, 400))
def test_the_limit_is_kept_whatever_the_name_and_the_far_end_is_left_out_and_counted(
    topology: str, base: int, gaps: list[tuple[int, int]], most_bytes: int
) -> None:
    runs = runs_above(base, gaps)
    metadata, left_out = encode(topology, base, runs, most_bytes)
    assert len(metadata.encode()) <= most_bytes
    note = decode(metadata)
    if note is None:
        assert metadata == ""
        assert most_bytes < PLENTY
        assert left_out == count(runs)
        return
    assert note.base == base
    assert list(note.runs) == runs[: len(note.runs)]
    assert left_out == count(runs[len(note.runs) :])


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize("most_bytes", [256, 300, 4096])
def test_as_much_as_has_room_is_written(most_bytes: int) -> None:
    runs = [bound for start in range(1, 20_000, 2) for bound in (start, start + 1)]
    metadata, left_out = encode("ü" * 300, 0, runs, most_bytes)
    assert most_bytes - 8 < len(metadata) <= most_bytes
    assert left_out == 10_000 - len(decode(metadata).runs) // 2  # type: ignore[union-attr]


def test_what_fits_to_the_last_byte_is_written() -> None:
    whole, _ = encode("words", 10, [12, 15], 4096)
    assert encode("words", 10, [12, 15], len(whole)) == (whole, 0)
    assert encode("words", 10, [12, 15], len(whole) - 1) == ("", 3)


def test_a_long_topology_fits_into_plenty_at_the_largest_offset() -> None:
    metadata, _ = encode("名" * 500, 2**63 - 1, [], PLENTY)
    assert decode(metadata) == CommitNote(written_name("名" * 500), 2**63 - 1, ())


@pytest.mark.guarantee("KS-5")
def test_a_name_is_written_without_colons_bounded_and_shown_as_it_was() -> None:
    assert ":" not in written_name("a:b")
    assert shown_name(written_name("wörter: 2/3")) == "wörter: 2/3"
    assert shown_name(written_name("x" * 95)) == "x" * 95
    assert shown_name(written_name("x" * 96)) == f"{'x' * 63}…"
    assert shown_name(written_name("名" * 1000)) == f"{'名' * 7}…", "cut between two letters"
    assert {len(written_name("x" * length)) for length in (96, 97, 500)} == {96}


# Longer than what is written of a name, and alike up to there

LONG = "abonnements-und-bestellungen-der-mandanten-" * 3
ALIKE = [
    ("x" * 96, "x" * 97),
    (LONG + "a", LONG + "b"),
    ("日本語のトポロジー名前です一", "日本語のトポロジー名前です二"),
    ("名" * 1000, "名" * 1001),
]


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_two_topologies_are_told_apart_however_long_their_names_are(one: str, other: str) -> None:
    for author, reader in ((one, other), (other, one)):
        note = decode(encode(author, 10, [12, 15], 4096)[0])
        assert note is not None
        assert note.is_by(author) is True
        assert note.is_by(reader) is False


@pytest.mark.guarantee("KS-7")
@given(one=NAMES, other=NAMES)
def test_a_commit_is_by_the_topology_of_its_name_alone(one: str, other: str) -> None:
    note = decode(encode(one, 10, [], 4096)[0])
    assert note is not None
    assert note.is_by(one) is True
    assert note.is_by(other) is (one == other)
    assert len(note.topology) <= 96


@pytest.mark.guarantee("KS-5", "KS-7")
@pytest.mark.parametrize("name", ["x" * 96, "x" * 97, "日本語のトポロジー名前です一"])
def test_of_a_name_that_was_cut_without_a_digest_nobody_can_say_whose_it_is(name: str) -> None:
    note = decode(f"stormcell:1:{quote(name, safe='')[:96]}:{packed(10, 2, 3)}")
    assert note is not None
    assert (note.base, note.runs) == (10, (12, 15))
    assert note.is_by(name) is None
    assert note.is_by("y" + name) is False
    assert note.is_by("x") is False


def test_a_commit_that_is_moved_keeps_its_topology_and_no_set() -> None:
    for name in ("words", "a:b", LONG):
        note = decode(encode(name, 10, [12, 15], 4096)[0])
        assert note is not None
        moved = decode(moved_to(note, 2**62))
        assert moved == CommitNote(written_name(name), 2**62, ())
        assert moved.is_by(name)


def packed(*numbers: int) -> str:
    """Varints as base64, with whatever numbers."""
    out = bytearray()
    for number in numbers:
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return base64.b64encode(out).decode()


GOOD = f"stormcell:1:words:{packed(10, 2, 3)}"


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(
    "metadata",
    [
        *(None, "", ":::", "stormcell", "stormcell:1:words", "offset of another program", GOOD + ":", ":" + GOOD),
        *(
            GOOD.replace(":1:", ":2:"),
            GOOD.replace(":1:", "::"),
            GOOD.replace("stormcell", "Stormcell"),
            GOOD.replace("stormcell", "storm"),
        ),
        *("stormcell:1:words:", "stormcell:1:words:====", "stormcell:1:words:Cg", GOOD[:-1], GOOD + "\n", GOOD[:-4] + "C ID"),
        *(f"stormcell:1:words:{packed(10, 2)}", f"stormcell:1:words:{packed(10, 2, 3, 4)}", "stormcell:1:words:\udc80\udc81\udc82AA"),
        f"stormcell:1:words:{packed(10, 2, 0)}",
        f"stormcell:1:words:{packed(2**63)}",
        f"stormcell:1:words:{packed(2**63 - 4, 2, 3)}",
        f"stormcell:1:words:{base64.b64encode(bytes([10, 2, 3, 0x83])).decode()}",
        f"stormcell:1:words:{base64.b64encode(bytes([0xFF] * 300)).decode()}",
        f"stormcell:1:wörds:{packed(10)}ü",
    ],
)
def test_what_another_program_another_version_or_an_accident_wrote_is_not_read(metadata: str | None) -> None:
    assert decode(GOOD) == CommitNote("words", 10, (12, 15))
    assert decode(metadata) is None


def judge(metadata: str) -> None:
    """Whatever comes: nothing, or a set that makes sense."""
    note = decode(metadata)
    if note is not None:
        bounds = [note.base, *note.runs]
        assert len(note.runs) % 2 == 0
        assert all(low <= high for low, high in pairwise(bounds))
        assert all(start < stop for start, stop in zip(note.runs[::2], note.runs[1::2], strict=True))
        assert 0 <= bounds[0] <= bounds[-1] < 2**63


@pytest.mark.guarantee("KS-7")
@given(text=st.text() | st.text("stormcell:1=AZaz09+/", max_size=40), body=st.binary(max_size=60), tail=st.text(max_size=3))
def test_no_text_raises(text: str, body: bytes, tail: str) -> None:
    coded = base64.b64encode(body).decode()
    for metadata in (
        text,
        f"stormcell:1:{text}",
        f"stormcell:1:words:{text}",
        f"stormcell:1:words:{coded}",
        f"stormcell:1:words:{coded}{tail}",
    ):
        judge(metadata)


@pytest.mark.guarantee("KS-7")
def test_no_damage_raises() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        damaged = list(
            encode("words", 1000, runs_above(1000, [(chance.randrange(300), 1 + chance.randrange(300)) for _ in range(9)]), 4096)[0]
        )
        for _ in range(1 + chance.randrange(3)):
            damaged[chance.randrange(len(damaged))] = chr(chance.randrange(256))
        judge("".join(damaged))


def test_runs_are_counted() -> None:
    assert [count(()), count((3, 4)), count(iter((3, 5, 5, 9)))] == [0, 1, 6]
