"""Compares what a flow with windows gave with a plain computation over its rows."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from engine.streams.windows import Calendar, Session
from tests.model.window_model import window_of_calendar, windows_of_time
from tests.streams.random_windows.plan import FILTERED, POISONED, Plan
from tests.streams.random_windows.sources import Row

KINDS: Final = ("early", "final", "late")
Results: TypeAlias = dict[tuple[Any, int], tuple[int, Any]]
"""End and value by key and start."""


def windows_of(spec: Any, micros: int) -> list[tuple[int, int]]:
    """Return the windows of a time, which are no sessions."""
    if isinstance(spec, Calendar):
        return window_of_calendar(spec.unit, spec.tz, micros)
    return sorted(windows_of_time(spec.size_us, spec.every_us, spec.offset_us, micros))


def plain(spec: Any, rows: Iterable[tuple[Any, int, Any]]) -> dict[tuple[Any, int], tuple[int, list[Any]]]:
    """Return the end and the rows of each window, by key and start. rows: key, time in microseconds and identity of each row."""
    windows: dict[tuple[Any, int], tuple[int, list[Any]]] = {}
    by_key: defaultdict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for key, micros, row in rows:
        by_key[key].append((micros, row))
        for start, end in () if isinstance(spec, Session) else windows_of(spec, micros):
            windows.setdefault((key, start), (end, []))[1].append(row)
    for key, its in by_key.items() if isinstance(spec, Session) else ():
        start = last = None
        for micros, row in sorted(its):
            if last is None or micros - last >= spec.gap_us:
                start = micros
            windows[key, start] = micros + spec.gap_us, [*windows.get((key, start), (0, []))[1], row]
            last = micros
    return {name: (end, sorted(its)) for name, (end, its) in windows.items()}


def parsed(lines: Iterable[str]) -> list[Any]:
    """Return results: key, start, end and value. With updates also revision, kind, and the starts that it replaces."""
    return [ast.literal_eval(line) for line in lines]


def newest(results: Iterable[tuple[Any, ...]]) -> list[tuple[Any, int, int, Any]]:
    """Return the newest revision of each key and start that no later result replaces. Results without revisions stay as they are."""
    results = list(results)
    replaced = {(each[0], start) for each in results for start in (each[6] if len(each) > 4 else ())}
    found: dict[Any, tuple[Any, ...]] = {}
    for number, each in enumerate(sorted(results, key=lambda each: each[4] if len(each) > 4 else 0)):
        if each[:2] not in replaced:
            found[each[:2] if len(each) > 4 else number] = each
    return [(each[0], each[1], each[2], each[3]) for each in found.values()]


def judge_revisions(plan: Plan, results: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """The revisions of a key and start count from 0, and at most one of them is final (WI-4).

    A row beyond the bound may begin a session with the start of one that is forgotten, so nothing is said of such sessions.
    """
    if isinstance(plan.spec, Session) and plan.unbound:
        return
    by_window = defaultdict(list)
    for each in results:
        by_window[each[:2]].append(each)
    for name, its in by_window.items():
        its.sort(key=lambda each: each[4])
        kinds = [KINDS.index(each[5]) for each in its]
        if [each[4] for each in its] != list(range(len(its))) or kinds != sorted(kinds) or kinds.count(KINDS.index("final")) > 1:
            yield f"the window {name} has these revisions: {its}"


def fate_of(plan: Plan, row: Row) -> str:
    """Return whether a row arrives at the windows, or is dropped or diverted before."""
    for step in plan.steps:
        if step == "filter" and row.number % FILTERED == 0:
            return "dropped"
        if step == "divert" and row.number % POISONED == 0:
            return "diverted"
    return "arrives"


def judge_once(name: str, results: Sequence[tuple[Any, int, int, Any]]) -> Iterator[str]:
    """Each key has one result in each window (WI-1, ET-4)."""
    for (key, start), count in Counter((key, start) for key, start, _, _ in results).items():
        if count > 1:
            them = [each for each in results if each[:2] == (key, start)]
            yield f"{name}: {count} results of {key!r} in the window that starts at {start}: {them}"


def judge_verdicts(results: Sequence[tuple[Any, int, int, Any]], late: Sequence[int]) -> Iterator[str]:
    """No row is late twice, in a window twice, or late and in a window (WI-1)."""
    for number, count in Counter(late).items():
        if count > 1:
            yield f"row {number} is late {count} times"
    counted = {number for *_, value in results if isinstance(value, list) for number in value}
    if both := sorted(counted & set(late)):
        yield f"rows {both} are in a window and late"
    for key, start, _, value in results:
        if isinstance(value, list) and len(set(value)) < len(value):
            yield f"the window of {key!r} that starts at {start} has a row twice: {value}"


def judge_exact(plan: Plan, results: Sequence[tuple[Any, int, int, Any]], late: Sequence[int], failed: Sequence[int]) -> Iterator[str]:
    """At the end each row is in all its windows, late, or diverted, and each result is what the rows give (WI-1)."""
    yield from judge_once("first", results)
    yield from judge_verdicts(results, late)
    arriving = [row for row in plan.rows if fate_of(plan, row) == "arrives"]
    diverted = sorted(row.number for row in plan.rows if fate_of(plan, row) == "diverted")
    if sorted(failed) != diverted:
        yield f"the diverted rows are {sorted(failed)}, and should be {diverted}"
    if early := sorted(set(late) - plan.unbound):
        yield f"rows {early} came within the bound, and are late (ET-2)"
    if strange := set(late) - {row.number for row in arriving}:
        yield f"rows {sorted(strange)} are late, and should not have arrived"
    taken = [row for row in arriving if row.number not in set(late)]
    yield from judge_values(plan, results, taken)


def judge_values(plan: Plan, results: Sequence[tuple[Any, int, int, Any]], taken: Sequence[Row]) -> Iterator[str]:
    """Compare the results with those of the rows that were not late."""
    due = plain(plan.spec, [(row.key, row.at * 1000, row.number) for row in taken])
    found = {(key, start): (end, value) for key, start, end, value in results}
    unbound = plan.unbound & {row.number for row in taken}
    if isinstance(plan.spec, Session) and unbound:
        yield from _judge_sessions(plan, found, taken)
        return
    for name in sorted(due.keys() | found.keys()):
        end, numbers = due.get(name, (0, []))
        if not set(numbers) & unbound or not getattr(plan.spec, "overlaps", False):
            value = _value(plan, numbers)
            if found.get(name) != (end, value):
                yield f"the window {name} gives {found.get(name)}, and should give {(end, value)}"
        elif plan.aggregation == "collect" and name in found and not set(found[name][1]) <= set(numbers):
            yield f"the window {name} gives {found[name]}, of rows {numbers}"
        elif name not in found and set(numbers) - unbound:
            yield f"the window {name} gives nothing, and has rows {numbers}"
        elif plan.aggregation == "collect" and name in found and not set(numbers) - unbound <= set(found[name][1]):
            yield f"the window {name} gives {found[name]}, and lacks some of {numbers}"
    if plan.aggregation == "collect" and unbound:
        yield from _judge_suffixes(plan, found, taken)


def _value(plan: Plan, numbers: Sequence[int]) -> Any:
    match plan.aggregation:
        case "collect":
            return list(numbers)
        case "count":
            return len(numbers)
        case _:
            return sum(numbers)


def _judge_suffixes(plan: Plan, found: Mapping[tuple[Any, int], tuple[int, Any]], taken: Sequence[Row]) -> Iterator[str]:
    """A row below the watermark counts in the windows that are open, which are the last of its windows (ET-2)."""
    for row in taken:
        has = [row.number in found.get((row.key, start), (0, []))[1] for start, _ in windows_of(plan.spec, row.at * 1000)]
        if not has[-1] or has != sorted(has):
            yield f"row {row} is in these of its windows: {has}"


def _judge_sessions(plan: Plan, found: Mapping[tuple[Any, int], tuple[int, Any]], taken: Sequence[Row]) -> Iterator[str]:
    """Judge sessions with rows beyond the bound. Such a row may come when the session that it belongs to is closed, and opens another."""
    if plan.aggregation != "collect":
        if plan.aggregation == "count" and sum(value for _, value in found.values()) != len(taken):
            yield f"all sessions together count {sum(value for _, value in found.values())} rows, and should count {len(taken)}"
        return
    rows = {row.number: row for row in taken}
    counted = Counter(number for _, value in found.values() for number in value)
    if counted != Counter(rows.keys()):
        yield f"the sessions have rows {sorted(counted.elements())}, and should have {sorted(rows)}"
        return
    for (key, start), (end, value) in found.items():
        own = plain(plan.spec, [(rows[number].key, rows[number].at * 1000, number) for number in value])
        if own != {(key, start): (end, value)}:
            yield f"the session {key!r} from {start} to {end} has {value}, which are {own}"
    spans = sorted((key, start, end) for (key, start), (end, _) in found.items())
    for (key, start, end), (other, following, _) in pairwise(spans):
        both = {*found[key, start][1], *found[other, following][1]}
        if key == other and following < end and not both & plan.unbound:
            yield f"the sessions of {key!r} from {start} and {following} are one"


def judge_second(plan: Plan, first: Sequence[tuple[Any, int, int, Any]], second: Sequence[tuple[Any, int, int, Any]]) -> Iterator[str]:
    """The second windows have each result of the first ones, since none of these is late (ET-5)."""
    yield from judge_once("second", second)
    due = plain(plan.second, [(key < "c", end - 1, (key, start, end)) for key, start, end, _ in first])
    found = {(key, start): (end, value) for key, start, end, value in second}
    for name in sorted(due.keys() | found.keys()):
        if found.get(name) != due.get(name):
            yield f"the second window {name} gives {found.get(name)}, and should give {due.get(name)}"


def judge_inexact(plan: Plan, results: Sequence[tuple[Any, int, int, Any]], late: Sequence[int]) -> Iterator[str]:
    """At least once: each window comes, and has at least the rows that came within the bound (WI-5)."""
    again = {number for source in plan.sources for number in source.sent_again}
    died = {number for source in plan.sources for number in source.after_deaths}
    arriving = [row for row in plan.rows if fate_of(plan, row) == "arrives"]
    if early := sorted(set(late) - plan.unbound - died):
        yield f"rows {early} came within the bound, and are late (ET-2)"
    if strange := set(late) - {row.number for row in arriving}:
        yield f"rows {sorted(strange)} are late, and should not have arrived"
    taken = [row for row in arriving if row.number not in set(late)]
    doubtful = again | plan.unbound | set(late)
    due = plain(plan.spec, [(row.key, row.at * 1000, row.number) for row in arriving])
    found: defaultdict[tuple[Any, int], list[tuple[int, Any]]] = defaultdict(list)
    for key, start, end, value in results:
        found[key, start].append((end, value))
    is_session = isinstance(plan.spec, Session)
    for name, (end, numbers) in due.items():
        if is_session and doubtful:
            continue
        sure = [number for number in numbers if number not in doubtful]
        if sure == numbers:
            wrong = [each for each in found[name] if each != (end, _value(plan, numbers))]
            if not found[name] or wrong:
                yield f"the window {name} gives {found[name]}, and should give {(end, _value(plan, numbers))}"
        elif sure and not found[name]:
            yield f"the window {name} gives nothing, and has {numbers}"
        elif plan.aggregation == "collect" and not all(set(sure) <= set(value) for _, value in found[name]):
            yield f"the window {name} gives {found[name]}, and lacks some of {sure}"
        elif plan.aggregation == "count" and any(value < len(sure) for _, value in found[name]):
            yield f"the window {name} gives {found[name]}, and has {numbers}"
    if plan.aggregation == "collect":
        seen = {number for *_, value in results for number in value}
        if lost := sorted({row.number for row in taken} - seen):
            yield f"rows {lost} are neither in a window nor late"
