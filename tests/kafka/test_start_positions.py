"""Start positions by the settings, and by the commit and its topology (KS-5), and use of its acked set (KS-7)."""

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import quote

import pytest

from engine.kafka import KafkaSpoutConfig
from engine.kafka.client.log_continuity import Divergence
from engine.kafka.client.partition import LogMark, PartitionId
from engine.kafka.source import acked_set
from engine.kafka.source.start_positions import LostPosition, StartPosition, StartSearch, find_start_positions, position_at_commit

ID = PartitionId("lines", 0)
FIRST, LAST, AT_TIME = 3, 90, 40
MINE = acked_set.encode("words", 50, [52, 55, 60, 61], 4096)[0]
BARE = acked_set.encode("words", 50, [], 4096)[0]
OTHERS = acked_set.encode("other: one", 50, [52, 55], 4096)[0]
STALE = acked_set.encode("words", 49, [52, 55], 4096)[0]
UNKNOWN = "a text of another program"


def config(**values: Any) -> KafkaSpoutConfig:
    if values.get("start") == "timestamp":
        values["start_timestamp_ms"] = 1234
    return KafkaSpoutConfig(**({"brokers": "127.0.0.1:9092", "topics": "lines", "group": "g"} | values))


class FakeLink:
    """A broker with commits, and with partitions from FIRST to LAST."""

    def __init__(self, commits: Mapping[PartitionId, tuple[int, str]], at_time: Mapping[PartitionId, int]) -> None:
        self.commits, self.times = commits, at_time
        self.logs = SimpleNamespace(divergences=self.divergences)
        self.diverged: dict[PartitionId, Divergence] = {}
        self.asked: list[tuple[object, tuple[object, ...]]] = []

    async def committed(self, partitions: Collection[PartitionId]) -> Mapping[PartitionId, tuple[int, str]]:
        return {partition: self.commits[partition] for partition in partitions if partition in self.commits}

    async def divergences(self, positions: Mapping[PartitionId, tuple[int, LogMark]]) -> Mapping[PartitionId, Divergence]:
        self.asked += [("log", (partition, *place)) for partition, place in positions.items()]
        return {partition: self.diverged[partition] for partition in positions if partition in self.diverged}

    async def bounds(self, partitions: Collection[PartitionId], end: str) -> Mapping[PartitionId, int]:
        self.asked.append((end, tuple(partitions)))
        return dict.fromkeys(partitions, FIRST if end == "earliest" else LAST)

    async def at_time(self, partitions: Collection[PartitionId], timestamp_ms: int) -> Mapping[PartitionId, int]:
        self.asked.append((timestamp_ms, tuple(partitions)))
        return {partition: self.times[partition] for partition in partitions if partition in self.times}


async def begin(settings: KafkaSpoutConfig, commit: tuple[int, str] | None) -> StartPosition:
    link = FakeLink({ID: commit} if commit else {}, {ID: AT_TIME})
    found = await find_start_positions(link, settings, "words", StartSearch([ID]))  # type: ignore[arg-type]
    assert list(found) == [ID]
    return found[ID]


@pytest.mark.guarantee("KS-5")
@pytest.mark.parametrize(
    ("start", "without", "of_others"),
    [
        ("earliest", FIRST, FIRST),
        ("latest", LAST, LAST),
        ("uncommitted_earliest", FIRST, 50),
        ("uncommitted_latest", LAST, 50),
        ("timestamp", AT_TIME, 50),
    ],
)
async def test_start_applies_without_a_commit_of_this_topology(start: str, without: int, of_others: int) -> None:
    settings = config(start=start)
    must_commit = start in ("latest", "uncommitted_latest", "timestamp")
    assert await begin(settings, None) == StartPosition(without, first=FIRST, last=LAST, must_commit=must_commit)
    assert (await begin(settings, (50, MINE))).offset == 50
    assert (await begin(settings, (50, BARE))).offset == 50
    for metadata in (OTHERS, UNKNOWN, ""):
        position = await begin(settings, (50, metadata))
        assert position.offset == of_others
        assert position.committed == (50 if of_others == 50 else None), "a commit that is not ours is to be made anew"
        assert (position.skips, position.metadata) == ((), None)


@pytest.mark.guarantee("KS-5")
async def test_the_writer_of_a_used_foreign_commit_is_reported() -> None:
    assert (await begin(config(), (50, OTHERS))).foreign == "other: one"
    assert (await begin(config(), (50, UNKNOWN))).foreign is None
    assert (await begin(config(), (50, MINE))).foreign is None
    assert position_at_commit(config(start="earliest"), "words", 50, OTHERS) is None
    mine = position_at_commit(config(start="latest"), "other: one", 50, OTHERS)
    assert mine is not None
    assert (mine.foreign, mine.skips) == (None, (52, 55))


@pytest.mark.guarantee("KS-5", "KS-7")
@pytest.mark.parametrize("start", ["earliest", "latest", "uncommitted_earliest", "uncommitted_latest", "timestamp"])
async def test_a_commit_of_a_later_version_is_used_without_its_set(start: str) -> None:
    position = await begin(config(start=start), (50, "stormcell:7:words:whatever it has"))
    assert position == StartPosition(50, 50, None, "stormcell:7:words:whatever it has", first=FIRST, last=LAST)


@pytest.mark.guarantee("KS-5", "KS-7")
@pytest.mark.parametrize(
    ("start", "offset"), [("earliest", FIRST), ("latest", 50), ("uncommitted_earliest", 50), ("uncommitted_latest", 50), ("timestamp", 50)]
)
async def test_a_name_cut_by_an_older_version_skips_no_record(start: str, offset: int) -> None:
    """Given a commit of an unknown topology, then reading begins at an offset that loses no record."""
    name = "words " * 30
    metadata = f"stormcell:1:{quote(name, safe='')[:96]}:{MINE.rsplit(':', 1)[1]}"
    link = FakeLink({ID: (50, metadata)}, {ID: AT_TIME})
    position = (await find_start_positions(link, config(start=start), name, StartSearch([ID])))[ID]  # type: ignore[arg-type]
    assert (position.offset, position.skips, position.dropped, position.foreign) == (offset, (), 4, None)
    assert position.unsure == "words " * 12 + "…"
    assert (await find_start_positions(link, config(start=start), "lines", StartSearch([ID])))[ID].unsure is None  # type: ignore[arg-type]


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize("start", ["earliest", "latest", "uncommitted_earliest", "uncommitted_latest", "timestamp"])
async def test_the_set_is_used_if_reading_resumes_at_its_commit(start: str) -> None:
    assert await begin(config(start=start), (50, MINE)) == StartPosition(50, 50, MINE, skips=(52, 55, 60, 61), first=FIRST, last=LAST)
    assert await begin(config(start=start), (50, BARE)) == StartPosition(50, 50, BARE, first=FIRST, last=LAST)


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(
    ("settings", "commit", "dropped"),
    [
        ({}, (50, STALE), 3),
        ({}, (49, MINE), 4),
        ({}, (51, MINE), 4),
        ({}, (50, OTHERS), 3),
        ({}, (50, UNKNOWN), 0),
        ({"guarantee": "at_most_once"}, (50, MINE), 4),
        ({"guarantee": "no_guarantee"}, (50, MINE), 4),
        ({"commit_acked_set": False}, (50, MINE), 4),
    ],
)
async def test_any_other_set_is_dropped_and_counted(settings: dict[str, Any], commit: tuple[int, str], dropped: int) -> None:
    position = await begin(config(**settings), commit)
    assert (position.offset, position.committed) == (commit[0], commit[0])
    assert (position.skips, position.metadata, position.dropped) == ((), None, dropped)


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(("start", "offset"), [("earliest", FIRST), ("latest", LAST)])
async def test_an_applied_start_drops_and_counts_the_set(start: str, offset: int) -> None:
    assert await begin(config(start=start), (50, OTHERS)) == StartPosition(
        offset, dropped=3, first=FIRST, last=LAST, must_commit=start == "latest"
    )


@pytest.mark.guarantee("KS-5")
async def test_each_partition_has_its_own_start() -> None:
    ids = [PartitionId("lines", number) for number in range(4)]
    link = FakeLink({ids[0]: (50, MINE), ids[2]: (7, "")}, {ids[1]: AT_TIME})
    found = await find_start_positions(link, config(start="timestamp"), "words", StartSearch(ids))  # type: ignore[arg-type]
    assert {partition.partition: position.offset for partition, position in found.items()} == {0: 50, 1: AT_TIME, 2: 7, 3: LAST}
    assert (1234, (ids[1], ids[3])) in link.asked


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(("out_of_range", "offset"), [("earliest", FIRST), ("latest", LAST), ("fail", FIRST)])
@pytest.mark.parametrize("committed", [FIRST - 1, LAST + 1])
async def test_a_commit_out_of_range_is_moved_and_its_set_dropped(committed: int, out_of_range: str, offset: int) -> None:
    metadata = acked_set.encode("words", committed, [committed + 5, committed + 9], 4096)[0]
    position = await begin(config(out_of_range=out_of_range), (committed, metadata))
    must_commit = out_of_range != "fail"
    assert position == StartPosition(offset, dropped=4, missing=committed, first=FIRST, last=LAST, must_commit=must_commit)


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize("committed", [FIRST, LAST - 2])
async def test_a_commit_at_either_end_of_the_records_is_kept(committed: int) -> None:
    metadata = acked_set.encode("words", committed, [committed + 1, committed + 2], 4096)[0]
    position = await begin(config(), (committed, metadata))
    assert (position.offset, position.skips, position.missing) == (committed, (committed + 1, committed + 2), None)


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(("committed", "stop"), [(LAST, LAST + 2), (LAST - 3, LAST + 1), (50, 2**62)])
async def test_a_set_beyond_the_end_is_dropped(committed: int, stop: int) -> None:
    """Given acked offsets beyond the end of a topic that was created again, then the acked set is dropped."""
    metadata = acked_set.encode("words", committed, [committed + 1, stop], 4096)[0]
    position = await begin(config(), (committed, metadata))
    assert position == StartPosition(committed, committed, None, metadata, dropped=stop - committed - 1, first=FIRST, last=LAST)
    stable = await begin(config(isolation_level="read_committed"), (committed, metadata))
    assert stable.skips == (committed + 1, stop), "an open transaction is before them, perhaps"


@pytest.mark.guarantee("KS-7")
async def test_a_missing_next_offset_does_not_read_the_commit() -> None:
    link = FakeLink({ID: (50, MINE)}, {})
    found = await find_start_positions(link, config(), "words", StartSearch([ID], {ID: LostPosition(2, 1, None)}))  # type: ignore[arg-type]
    assert found[ID] == StartPosition(FIRST, missing=2, first=FIRST, last=LAST, must_commit=True)


MARK: Final = LogMark(bytes(range(16)), 5)
EARLIER: Final = LogMark(MARK.topic_id, 4)


async def begin_in_another_log(committed: int, runs: list[int], other: Divergence, **settings: Any) -> tuple[FakeLink, StartPosition]:
    metadata = acked_set.encode("words", committed, runs, 4096, MARK)[0]
    link = FakeLink({ID: (committed, metadata)}, {})
    link.diverged[ID] = other
    return link, (await find_start_positions(link, config(**settings), "words", StartSearch([ID])))[ID]  # type: ignore[arg-type]


@pytest.mark.guarantee("KS-15")
@pytest.mark.parametrize("out_of_range", ["earliest", "latest"])
async def test_reading_continues_where_the_log_was_cut(out_of_range: str) -> None:
    link, position = await begin_in_another_log(50, [52, 55], Divergence(45, EARLIER), out_of_range=out_of_range)
    assert ("log", (ID, 55, MARK)) in link.asked
    assert (position.offset, position.mark, position.skips, position.dropped) == (45, EARLIER, (), 3)
    assert (position.missing, position.must_commit) == (55, True)


@pytest.mark.guarantee("KS-15")
async def test_acked_offsets_behind_the_cut_are_read_again() -> None:
    _, position = await begin_in_another_log(50, [52, 55], Divergence(53, EARLIER))
    assert (position.offset, position.mark, position.skips, position.dropped) == (50, EARLIER, (), 3)


@pytest.mark.guarantee("KS-15")
async def test_a_cut_below_the_first_offset_leaves_no_epoch_to_compare() -> None:
    _, position = await begin_in_another_log(50, [], Divergence(FIRST - 1, EARLIER))
    assert (position.offset, position.mark) == (FIRST, None)


@pytest.mark.guarantee("KS-15")
@pytest.mark.parametrize(("out_of_range", "offset"), [("earliest", FIRST), ("latest", LAST), ("fail", FIRST)])
async def test_a_commit_of_an_earlier_topic_of_this_name_is_moved(out_of_range: str, offset: int) -> None:
    new = LogMark(bytes(16), -1)
    _, position = await begin_in_another_log(50, [52, 55], Divergence(None, new, is_new_topic=True), out_of_range=out_of_range)
    assert (position.offset, position.mark, position.skips, position.dropped) == (offset, None, (), 3)
    assert (position.missing, position.must_commit) == (55, out_of_range != "fail")


@pytest.mark.guarantee("KS-15")
@pytest.mark.parametrize(("unfinished", "cut", "start"), [(30, 45, 30), (60, 45, 45), (30, None, FIRST)])
async def test_records_in_flight_before_the_cut_are_read_again(unfinished: int, cut: int | None, start: int) -> None:
    link = FakeLink({}, {})
    link.diverged[ID] = Divergence(cut, EARLIER, is_new_topic=cut is None)
    unread = {ID: LostPosition(80, unfinished, MARK)}
    position = (await find_start_positions(link, config(), "words", StartSearch([ID], unread)))[ID]  # type: ignore[arg-type]
    assert (position.offset, position.missing) == (start, 80)


@pytest.mark.guarantee("KS-7")
async def test_a_next_offset_that_exists_again_loses_no_record_in_flight() -> None:
    unread = {ID: LostPosition(80, 60, None)}
    position = (await find_start_positions(FakeLink({}, {}), config(), "words", StartSearch([ID], unread)))[ID]  # type: ignore[arg-type]
    assert (position.offset, position.missing) == (60, None)
