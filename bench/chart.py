"""Chart of measured speed for the README, as SVG. It shows the engine beside its peers.

`python -m bench report` stores its figures in docs/images/speed.json, and draws docs/images/speed.svg from that file.
`python -m bench.chart` draws the chart again from the stored figures, without measuring.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.environments import PROJECT
from bench.registry.compare import COMPARE
from bench.results import Results
from engine.svg import svg_document, svg_element, svg_text

FOLDER = PROJECT / "docs" / "images"
FIGURES = "speed.json"
CHART = "speed.svg"

WORKS = {
    "word-count-bursts": "Word count in bursts, every tuple tree tracked",
    "word-count": "Word count, every tuple tree tracked",
    "const-null-bursts": "Spout and one bolt in bursts, every tuple tree tracked",
    "const-null": "Spout and one bolt, every tuple tree tracked",
    "un-acked-bursts": "Spout and one bolt in bursts, nothing tracked",
}
PEERS = {
    "bare-loop": "bare loop, no features",
    "bytewax-256": "Bytewax, tracks nothing",
    "bytewax-256-logic": "Bytewax, own StatefulLogic",
    "storm": "Storm, uses all cores",
}
BARS = tuple((work.name, peer.name) for work in COMPARE if work.name in WORKS for peer in work.peers if peer.name in PEERS)

# Pixels.
WIDTH, MARGIN = 760, 20
HEAD, FOOT = 62, 40
HEADING_HEIGHT, ROW_HEIGHT, BAR_HEIGHT = 34, 19, 13
BARS_LEFT, BARS_WIDTH = 212, 400

# Each scheme paints its own background, so the chart is legible even if the page ignores the reader's scheme.
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1f2328; dominant-baseline: central; }
.title { font-size: 16px; font-weight: 600; } .work { font-weight: 600; } .muted { fill: #59636e; } .name { text-anchor: end; }
.value { stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
.paper { fill: #ffffff; } .own { fill: #0969da; } .peer { fill: #8c959f; } .one { stroke: #0969da; stroke-dasharray: 3 3; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .muted { fill: #9198a1; } .value { stroke: #0d1117; } .paper { fill: #0d1117; }
.own { fill: #4493f8; } .peer { fill: #656c76; } .one { stroke: #4493f8; }
}"""


@dataclass(frozen=True)
class Bar:
    """One peer in one work: median nanoseconds per unit of the engine and of the peer, in alternating runs."""

    work: str
    unit: str
    peer: str
    own_ns: float
    peer_ns: float

    @property
    def speed(self) -> float:
        """Return the peer's speed as a multiple of the engine's. Above 1 the peer is faster.

        >>> Bar("word-count", "word", "storm", own_ns=500, peer_ns=1000).speed
        0.5
        """
        return self.own_ns / self.peer_ns


@dataclass(frozen=True)
class SpeedFigures:
    """All figures of the chart. `measured` names the date and the machine in one line."""

    measured: str
    bars: tuple[Bar, ...]

    @classmethod
    def of_results(cls, results: Results, measured: str) -> "SpeedFigures":
        """Take the chart's pairings from the results of a report. A pairing that was not measured has no bar."""
        found = [pairing for bar in BARS if (pairing := results.pairing(*bar)) is not None]
        return cls(measured, tuple(Bar(one.work, one.unit, one.peer, one.own_ns.median, one.peer_ns.median) for one in found))

    @classmethod
    def read(cls, path: Path) -> "SpeedFigures":
        """Read stored figures."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        return cls(stored["measured"], tuple(Bar(**bar) for bar in stored["bars"]))

    def write(self, path: Path) -> None:
        """Store the figures as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def missing(self) -> list[str]:
        """Return the bars of the whole chart that these figures do not have."""
        present = {(bar.work, bar.peer) for bar in self.bars}
        return [f"{work} on {peer}" for work, peer in BARS if (work, peer) not in present]


def update_chart(results: Results, machine: Mapping[str, str], date: str, folder: Path = FOLDER) -> str:
    """Store the figures of a report and draw the chart. Return a line that describes the result.

    If a bar was not measured, both files stay unchanged, because an incomplete chart would be misleading.
    """
    measured = f"{date}, {machine['cores']} cores ({machine['cpu']}), {machine['python']}"
    figures = SpeedFigures.of_results(results, measured)
    if missing := figures.missing():
        return f"{CHART} is unchanged, because some of its bars were not measured: {', '.join(missing)}"
    figures.write(folder / FIGURES)
    return draw_stored(folder)


def draw_stored(folder: Path = FOLDER) -> str:
    """Draw the chart from the stored figures. Return a line that says so."""
    chart = folder / CHART
    chart.write_text(speed_svg(SpeedFigures.read(folder / FIGURES)), encoding="utf-8")
    return f"{chart} is written"


def speed_svg(figures: SpeedFigures) -> str:
    """Return the chart as an SVG document. Each work has a group of bars, with the engine's speed as 1.

    A bar's length is the ratio within one pairing. Absolute speeds of different pairings are not comparable, because the machine's speed
    changes within minutes.
    """
    pixels_of_one = BARS_WIDTH / max(1.0, *(bar.speed for bar in figures.bars))
    groups: list[str] = []
    top = HEAD
    for work, title in WORKS.items():
        bars = [bar for bar in figures.bars if bar.work == work]
        if bars:
            groups += _group(title, bars, top, pixels_of_one)
            top += HEADING_HEIGHT + ROW_HEIGHT * (1 + len(bars))
    height, one = top + FOOT, BARS_LEFT + pixels_of_one
    return svg_document(
        WIDTH,
        height,
        "Measured speed beside Stormcell",
        STYLE,
        svg_element("desc", svg_text(_description(figures))),
        svg_element("rect", class_="paper", width=WIDTH, height=height, rx=8),
        _text(MARGIN, 26, "Measured speed, Stormcell = 1", "title"),
        _text(MARGIN, 48, "Longer is faster. Each peer ran in turn with Stormcell, pair by pair.", "muted"),
        svg_element("path", class_="one", d=f"M {one:.1f} {HEAD + 4} V {top + 4}"),
        *groups,
        _text(MARGIN, height - 18, f"Medians. {figures.measured}.", "muted"),
    )


def _group(title: str, bars: list[Bar], top: float, pixels_of_one: float) -> list[str]:
    """Return the drawing of one work, with a title, the engine's bar, and a bar for each peer."""
    own = sorted(bar.own_ns for bar in bars)
    span = f"{own[0]:,.0f}" if own[0] == own[-1] else f"{own[0]:,.0f} to {own[-1]:,.0f}"
    rows = [("Stormcell", 1.0, f"{span} ns per {bars[0].unit}", "own")]
    rows += [(PEERS[bar.peer], bar.speed, f"{bar.peer_ns:,.0f} ns", "peer") for bar in bars]
    parts = [_text(MARGIN, top + HEADING_HEIGHT - 13, title, "work")]
    for number, (name, speed, time, kind) in enumerate(rows):
        y = top + HEADING_HEIGHT + ROW_HEIGHT * number
        middle, length = y + BAR_HEIGHT / 2, speed * pixels_of_one
        parts.append(_text(BARS_LEFT - 8, middle, name, "name"))
        parts.append(svg_element("rect", class_=kind, x=BARS_LEFT, y=y, width=length, height=BAR_HEIGHT, rx=2))
        time_text = svg_element("tspan", svg_text(time), class_="muted", dx=4)
        parts.append(svg_element("text", f"{speed:.2f} × {time_text}", x=BARS_LEFT + length + 7, y=middle, class_="value"))
    return parts


def _description(figures: SpeedFigures) -> str:
    """Return the chart in words, for screen readers."""
    works = []
    for work, title in WORKS.items():
        speeds = [f"{PEERS[bar.peer]} {bar.speed:.2f}" for bar in figures.bars if bar.work == work]
        works.append(f"{title}: {'; '.join(speeds)}.")
    return " ".join(["Speed as a multiple of Stormcell's.", *works])


def _text(x: float, y: float, text: str, kind: str) -> str:
    return svg_element("text", svg_text(text), x=x, y=y, class_=kind)


if __name__ == "__main__":
    print(draw_stored())
