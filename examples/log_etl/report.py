"""Writes the report of Spark's tables: one HTML file without external resources."""

import itertools
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from string import Template
from typing import Final

import charts
from plain import Tables

STEP_MINUTES: Final = 5
STEPS: Final = charts.DAY_MINUTES // STEP_MINUTES
TOP_PAGES: Final = 17
TEMPLATE: Final = Path(__file__).with_name("page.html")


def write(path: Path, tables: Tables, *, faults: list[str], footer: str) -> None:
    """Write the report. `faults` are tables that differ from the plain computation."""
    page = Template(TEMPLATE.read_text(encoding="utf-8"))
    day = min(began for (began,) in tables.traffic)
    numbers = tables.rows
    verdict = f"All {numbers:,} rows of {', '.join(Tables.NAMES)} equal a plain computation" if not faults else "; ".join(faults)
    text = page.substitute(
        title=f"A day at shop.example: {day:%A}, {day.day} {day:%B %Y}",
        subtitle=f"{tables.lines:,} lines of access logs &rarr; transactions of the engine &rarr; committed batches &rarr; Spark",
        verdict=escape(verdict),
        verdict_class="bad" if faults else "",
        tiles=_tiles(tables),
        traffic=_traffic(tables),
        errors=_errors(tables),
        pages=_pages(tables),
        lines=_lines(tables),
        sections=_sections(tables),
        durations=_durations(tables),
        countries=_countries(tables),
        plans=_plans(tables),
        footer=escape(footer),
    )
    path.write_text(text, encoding="utf-8")


def _tiles(tables: Tables) -> str:
    requests, by_bots, _, errors, sent = tables.totals
    sessions = len(tables.sessions)
    tiles = {
        "requests": f"{requests:,}",
        "sessions of people": f"{sessions:,}",
        "requests a session": f"{(requests - by_bots) / max(sessions, 1):.1f}",
        "by bots": f"{by_bots / max(requests, 1):.1%}",
        "failed": f"{errors / max(requests, 1):.2%}",
        "were sent": f"{sent / 2**30:.2f} GiB",
    }
    return "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles.items())


# By time


def _steps(tables: Tables, column: int) -> list[int]:
    """Return the sums of a column of the traffic, for each step of the day."""
    sums = [0] * STEPS
    for (minute,), row in tables.traffic.items():
        sums[(minute.hour * 60 + minute.minute) // STEP_MINUTES] += row[column]
    return sums


def _clock(step: int) -> str:
    return f"{step * STEP_MINUTES // 60:02}:{step * STEP_MINUTES % 60:02}"


def _traffic(tables: Tables) -> str:
    requests, by_bots = _steps(tables, 0), _steps(tables, 1)
    people = [all_ - bots for all_, bots in zip(requests, by_bots, strict=True)]
    series = {name: [count / STEP_MINUTES for count in counts] for name, counts in (("bots", by_bots), ("people", people))}
    return charts.over_the_day(series, lambda step: f"{_clock(step)}: {people[step]:,} requests by people, {by_bots[step]:,} by bots")


def _errors(tables: Tables) -> str:
    requests, errors = _steps(tables, 0), _steps(tables, 3)
    share = [100 * wrong / all_ if all_ else 0.0 for wrong, all_ in zip(errors, requests, strict=True)]
    worst = max(range(STEPS), key=share.__getitem__)
    note = (worst, f"{share[worst]:.0f} % at {_clock(worst)}")
    tip = [f"{_clock(step)}: {errors[step]:,} of {requests[step]:,}, {share[step]:.1f} %" for step in range(STEPS)]
    return charts.over_the_day({"wrong": share}, tip.__getitem__, height=190, unit=" %", note=note)


def _sections(tables: Tables) -> str:
    views: defaultdict[str, list[int]] = defaultdict(lambda: [0] * 24)
    for (hour, section, _), (count,) in tables.pages.items():
        views[section][hour.hour] += count
    rows = dict(sorted(views.items(), key=lambda item: -sum(item[1])))
    return charts.heat_map(rows, lambda name, hour, count: f"{name}, {hour:02}:00: {count:,} views")


# By page, by visit


def _pages(tables: Tables) -> str:
    views: Counter[str] = Counter()
    for (_, _, page), (count,) in tables.pages.items():
        views[page] += count
    return charts.bars((page, count, f"{count:,}") for page, count in views.most_common(TOP_PAGES))


def _durations(tables: Tables) -> str:
    bounds = (0, 1, 2, 5, 10, 20, 30, 60)
    counts = [0] * len(bounds)
    for (_, _, began), (_, ended, *_) in tables.sessions.items():
        minutes = (ended - began) / timedelta(minutes=1)
        counts[max(number for number, bound in enumerate(bounds) if bound <= minutes)] += 1
    labels = [f"{low}-{high}" for low, high in itertools.pairwise(bounds)] + [f"{bounds[-1]}+"]
    return charts.columns(list(zip(labels, counts, strict=True)), "minutes")


def _countries(tables: Tables) -> str:
    counts = Counter(country for _, country, _ in tables.sessions)
    return charts.bars((country, count, f"{count:,}") for country, count in counts.most_common())


def _plans(tables: Tables) -> str:
    visits: defaultdict[str, list[tuple[datetime, datetime, int, int]]] = defaultdict(list)
    for (_, _, began), (plan, ended, requests, sent) in tables.sessions.items():
        visits[plan].append((began, ended, requests, sent))
    lines = []
    for plan, theirs in sorted(visits.items(), key=lambda item: -len(item[1])):
        count = len(theirs)
        minutes = sum((ended - began for began, ended, _, _ in theirs), timedelta()) / timedelta(minutes=1) / count
        mean, sent = sum(visit[2] for visit in theirs) / count, sum(visit[3] for visit in theirs) / count / 1024
        lines.append(_row(plan, f"{count:,}", f"{minutes:.1f} min", f"{mean:.1f}", f"{sent:,.0f} KiB"))
    return _table(("plan", "sessions", "on average", "requests", "sent"), lines)


def _lines(tables: Tables) -> str:
    rows = [
        _row("lines read", "", f"{tables.lines:,}"),
        _row("broken: kept aside", "engine", f"\u2212 {tables.broken:,}", style="minus"),
        _row("twice in a batch", "engine", f"\u2212 {tables.duplicates_in_batches:,}", style="minus"),
        _row("twice, in two batches", "Spark", f"\u2212 {tables.duplicates - tables.duplicates_in_batches:,}", style="minus"),
        _row("heartbeats of the servers", "Spark", f"\u2212 {tables.heartbeats:,}", style="minus"),
        _row("requests", "", f"{tables.totals[0]:,}", style="sum"),
    ]
    return _table(("", "dropped by", "lines"), rows)


def _row(name: str, *values: str, style: str = "") -> str:
    cells = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f'<tr class="{style}"><th scope="row">{escape(name)}</th>{cells}</tr>'


def _table(names: tuple[str, ...], rows: list[str]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return f'<table class="rows"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
