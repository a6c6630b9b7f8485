"""Acked offsets in metadata: round trips, limits of length, and metadata of other programs (KS-5, KS-7)."""

import base64
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.client.partition import LogMark
from engine.kafka.source.acked_set import PLENTY, CommitNote, count, decode, encode, moved_to, shown_name, written_name
from tests.model.acked_set_model import AckedSetReader, offsets_that_fit

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
def test_written_sets_are_read_back(topology: str, base: int, gaps: list[tuple[int, int]]) -> None:
    runs = runs_above(base, gaps)
    metadata, left_out = encode(topology, base, runs, 2**20)
    assert left_out == 0
    assert decode(metadata) == CommitNote(written_name(topology), base, tuple(runs))


@pytest.mark.guarantee("KS-7")
@given(topology=NAMES, base=BASES, gaps=GAPS, most_bytes=st.integers(0, 400))
def test_metadata_stay_within_the_limit_and_the_far_end_is_left_out(
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
def test_all_runs_that_fit_are_written(most_bytes: int) -> None:
    offsets = drawn(40_000, 0.5)
    metadata, left_out = encode("ü" * 300, 0, runs_of(offsets), most_bytes)
    assert most_bytes - 12 < len(metadata) <= most_bytes
    assert left_out == len(offsets) - count(decode(metadata).runs)  # type: ignore[union-attr]


# Number of offsets that survive (see KAFKA)


def runs_of(offsets: Iterable[int]) -> list[int]:
    """Start, stop, start, stop… of ascending offsets."""
    runs: list[int] = []
    for offset in offsets:
        if runs and runs[-1] == offset:
            runs[-1] += 1
        else:
            runs += [offset, offset + 1]
    return runs


def drawn(past: int, share: float) -> list[int]:
    """Return a random share of the offsets above 0."""
    chance = random.Random(5)
    return [offset for offset in range(1, past) if chance.random() < share]


@pytest.mark.guarantee("KS-7")
def test_alternating_offsets_take_few_bytes() -> None:
    for past in (20_000, 100_000):
        runs = runs_of(range(1, past, 2))
        metadata, left_out = encode("words", 10**9, [10**9 + bound for bound in runs], 4096)
        assert (left_out, len(metadata) < 256) == (0, True)
        assert count(decode(metadata).runs) == past // 2  # type: ignore[union-attr]


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(("share", "reach"), [(0.5, 23_700), (0.8, 30_000), (0.9, 40_000), (0.99, 200_000), (0.1, 41_000), (0.01, 200_000)])
def test_the_set_holds_as_many_offsets_as_the_guide_says(share: float, reach: int) -> None:
    metadata, _ = encode("words", 10**9, [10**9 + bound for bound in runs_of(drawn(210_000, share))], 4096)
    note = decode(metadata)
    assert note is not None
    assert note.runs[-1] - note.base >= reach * 0.99


DENSE = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=900)
MIXED = st.lists(GAPS | DENSE, max_size=4).map(lambda parts: [pair for part in parts for pair in part])


@pytest.mark.guarantee("KS-7")
@given(topology=NAMES, base=BASES, gaps=MIXED, most_bytes=st.integers(256, 700) | st.just(4096))
def test_an_independent_reader_agrees_and_packing_never_holds_fewer(
    topology: str, base: int, gaps: list[tuple[int, int]], most_bytes: int
) -> None:
    runs = runs_above(base, [(gap + (at > 0), length) for at, (gap, length) in enumerate(gaps)])
    metadata, left_out = encode(topology, base, runs, most_bytes)
    assert len(metadata) <= most_bytes
    room = (most_bytes - len(f"stormcell:1:{written_name(topology)}:")) // 4 * 3
    assert count(runs) - left_out >= offsets_that_fit(base, runs, room)
    note = decode(metadata)
    assert note is not None
    assert list(note.runs) == runs[: len(note.runs)]
    if count(runs) < 20_000:
        book = AckedSetReader(metadata)
        assert (book.topology, book.base) == (note.topology, base)
        assert book.offsets == list(offsets_of(note.runs))


def offsets_of(runs: Sequence[int]) -> Iterator[int]:
    for start, stop in zip(runs[::2], runs[1::2], strict=True):
        yield from range(start, stop)


def test_a_set_that_fits_exactly_is_written() -> None:
    whole, _ = encode("words", 10, [12, 15], 4096)
    assert encode("words", 10, [12, 15], len(whole)) == (whole, 0)
    assert encode("words", 10, [12, 15], len(whole) - 1) == ("", 3)


def test_plenty_holds_the_longest_name_at_the_largest_offset() -> None:
    metadata, _ = encode("名" * 500, 2**63 - 1, [], PLENTY)
    assert decode(metadata) == CommitNote(written_name("名" * 500), 2**63 - 1, ())


@pytest.mark.guarantee("KS-5")
def test_names_are_quoted_bounded_and_shown_unquoted() -> None:
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
def test_long_names_of_two_topologies_stay_distinct(one: str, other: str) -> None:
    for author, reader in ((one, other), (other, one)):
        note = decode(encode(author, 10, [12, 15], 4096)[0])
        assert note is not None
        assert note.is_by(author) is True
        assert note.is_by(reader) is False


@pytest.mark.guarantee("KS-7")
@given(one=NAMES, other=NAMES)
def test_a_commit_belongs_only_to_the_topology_of_its_name(one: str, other: str) -> None:
    note = decode(encode(one, 10, [], 4096)[0])
    assert note is not None
    assert note.is_by(one) is True
    assert note.is_by(other) is (one == other)
    assert len(note.topology) <= 96


@pytest.mark.guarantee("KS-5", "KS-7")
@pytest.mark.parametrize("name", ["x" * 96, "x" * 97, "日本語のトポロジー名前です一"])
def test_a_name_cut_without_a_digest_has_an_unknown_writer(name: str) -> None:
    note = decode(f"stormcell:1:{quote(name, safe='')[:96]}:{packed(10, 2, 3)}")
    assert note is not None
    assert (note.base, note.runs) == (10, (12, 15))
    assert note.is_by(name) is None
    assert note.is_by("y" + name) is False
    assert note.is_by("x") is False


def test_a_moved_commit_keeps_its_topology_and_drops_its_set() -> None:
    for name in ("words", "a:b", LONG):
        note = decode(encode(name, 10, [12, 15], 4096)[0])
        assert note is not None
        moved = decode(moved_to(note, 2**62))
        assert moved == CommitNote(written_name(name), 2**62, ())
        assert moved.is_by(name)


def packed(*numbers: int) -> str:
    """Return any numbers as varints in base64."""
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
def test_foreign_and_damaged_metadata_are_not_read(metadata: str | None) -> None:
    assert decode(GOOD) == CommitNote("words", 10, (12, 15))
    assert decode(metadata) is None


def judge(metadata: str) -> None:
    """Assert that a decoded note is None, valid, or of a later version."""
    note = decode(metadata)
    if note is not None and note.base == -1:
        assert note.runs == ()
    elif note is not None:
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


PACKED = encode("words", 1000, [1000 + bound for bound in runs_of(drawn(15_000, 0.5))], 4096)[0]


@pytest.mark.guarantee("KS-7")
def test_a_damaged_or_cut_packed_set_is_rejected() -> None:
    whole = decode(PACKED)
    assert PACKED.startswith("stormcell:2:words:")
    assert whole is not None
    chance = random.Random(11)
    for _ in range(500):
        at = chance.randrange(len("stormcell:2:words:") + 3, len(PACKED))
        damaged = PACKED[:at] + chance.choice("AZaz09+/".replace(PACKED[at], "")) + PACKED[at + 1 :]
        assert decode(damaged) in (None, whole)
        assert decode(PACKED[:at]) is None
        assert decode(PACKED[:at] + PACKED[at + 4 :]) is None
    assert decode(PACKED + PACKED.rpartition(":")[2]) is None


def zipped(*numbers: int, tail: bytes = b"") -> str:
    """Return a packed body of any numbers, with a correct checksum."""
    return f"stormcell:2:words:{base64.b64encode(zlib.compress(base64.b64decode(packed(*numbers)) + tail)).decode()}"


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(
    "metadata",
    [
        *(zipped(10, 2), zipped(10, 2, 0), zipped(10, 2, 0, 1), zipped(10, 2, 0, 0), zipped(10, 2, 0, 2, 1), zipped(tail=b"\x83")),
        *(zipped(10, 2, 0, tail=b"\1\0"), zipped(10, 2, 0, tail=b"\1\2"), zipped(10, 2, 0, tail=b"\2\1\0")),
        *(zipped(2**63), zipped(2**63 - 4, 2, 3), zipped(2**63 - 9, 0, 0, tail=b"\2\xff\xff"), zipped(tail=b"\xff" * 300)),
        zipped(10, tail=b"\1\1" * 40_000),
        zipped(10, tail=bytes(50_000_000)),
    ],
)
def test_an_inconsistent_packed_set_is_rejected(metadata: str) -> None:
    assert decode(zipped(10, 2, 0, tail=b"\2\x05\1")) == CommitNote("words", 10, (12, 13, 14, 15, 20, 21))
    assert decode(metadata) is None


@pytest.mark.guarantee("KS-5", "KS-7")
def test_only_the_topology_of_a_later_version_is_read() -> None:
    for metadata in ("stormcell:5:words:", "stormcell:5:words:whatever: it has", "stormcell:9999:words:CgID"):
        note = decode(metadata)
        assert note == CommitNote("words", -1, ())
        assert note.is_by("words")
    assert [
        decode(text) for text in ("stormcell:0:words:CgID", "stormcell:03:words:CgID", "stormcell:³:words:CgID", "stormcell:3:words")
    ] == [None] * 4


def test_runs_are_counted() -> None:
    assert [count(()), count((3, 4)), count(iter((3, 5, 5, 9)))] == [0, 1, 6]


@pytest.mark.guarantee("KS-15")
@pytest.mark.parametrize("epoch", [-1, 0, 2**31 - 1])
@pytest.mark.parametrize("runs", [(), (12, 15, 20, 21), tuple(range(11, 4001))])
def test_the_mark_of_the_log_is_stored_beside_the_runs(epoch: int, runs: tuple[int, ...]) -> None:
    mark = LogMark(bytes(range(16)), epoch)
    metadata, left_out = encode("words", 10, runs, 4096, mark)
    assert metadata.startswith("stormcell:4:words:")
    assert (decode(metadata), left_out, len(metadata) <= 4096) == (CommitNote("words", 10, runs, mark=mark), 0, True)


@pytest.mark.guarantee("KS-15")
def test_a_damaged_mark_is_no_note_of_ours() -> None:
    metadata, _ = encode("words", 10, (), 4096, LogMark(bytes(16), 3))
    head, body = metadata.rsplit(":", 1)
    raw = base64.b64decode(body)
    damaged = [raw[:9], raw[:16], raw[:17], raw[:17] + b"\2" + raw[18:]]
    assert [decode(f"{head}:{base64.b64encode(one).decode()}") for one in damaged] == [None] * 4


@pytest.mark.parametrize("topology", ["w", "x" * 500])
def test_an_empty_set_with_a_mark_always_fits(topology: str) -> None:
    metadata, _ = encode(topology, 2**63 - 1, (), PLENTY, LogMark(bytes(16), 2**31 - 1))
    assert metadata
