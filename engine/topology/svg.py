"""A topology as an SVG: layers from left to right, one box per component, one labelled curve per pair of components.

Sizes are in pixels. Text is not measured: a character counts as so many pixels of its font's average, and a bit more.
"""

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from engine.topology.graph import COMMITTER_COLOUR, edge_labels, subtitle
from engine.topology.spec import Edge, Topology

TITLE_CHARACTER: Final = 8.6
SMALL_CHARACTER: Final = 6.4
BOX_HEIGHT: Final = 52
ROW_HEIGHT: Final = 96
LABEL_LINE: Final = 14
MARGIN: Final = 32
HEADLINE: Final = 34
LOOP_DEPTH: Final = 34
ORDERING_SWEEPS: Final = 4

Point: TypeAlias = tuple[float, float]
Slot: TypeAlias = str | tuple[str, str, int]
"""What takes a place in a layer: a component, or an edge (source, target, layer) that passes through."""


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.y + BOX_HEIGHT / 2


@dataclass(slots=True)
class _Layout:
    """Where everything stands."""

    boxes: dict[str, _Box]
    edges: dict[Edge, tuple[Point, ...]]
    width: float
    height: float
    labels: list[tuple[float, float, float, float]] = field(default_factory=list)
    """The rectangles (left, top, right, bottom) of the labels that are placed."""

    def place(self, x: float, y: float, lines: tuple[str, ...]) -> Point:
        """Return where a label goes that wants its middle at (x, y): there, or below what is there already."""
        half_width, half_height = max(map(len, lines)) * SMALL_CHARACTER / 2, len(lines) * LABEL_LINE / 2
        left, right = x - half_width, x + half_width
        moved = True
        while moved:
            moved = False
            for other in self.labels:
                if left < other[2] and other[0] < right and y - half_height < other[3] and other[1] < y + half_height:
                    y, moved = other[3] + half_height + 1, True
        self.labels.append((left, y - half_height, right, y + half_height))
        self.height = max(self.height, y + half_height + MARGIN)
        self.width = max(self.width, right + MARGIN)
        return x, y


def svg(topology: Topology) -> str:
    """Return a complete SVG document: spouts have round ends, committers a thick outline, edges that close a cycle run below, dashed."""
    labels = edge_labels(topology)
    closing = topology.closing_edges()
    layout = _lay_out(topology, labels)
    curves = [_curve(points, labels[edge], layout) for edge, points in layout.edges.items()]
    curves += [_loop(edge, labels[edge], layout) for edge in labels if edge in closing]
    boxes = [_box(topology, component_id, box) for component_id, box in layout.boxes.items()]
    headline = f'<text x="{MARGIN}" y="{MARGIN}" class="headline">{_text(topology.name)}</text>'
    parts = [*_head(topology.name, layout), headline, *(curve for curve, _ in curves), *boxes, *(label for _, label in curves), "</svg>"]
    return "\n".join(parts) + "\n"


def _lay_out(topology: Topology, labels: Mapping[Edge, tuple[str, ...]]) -> _Layout:
    layers = topology.layers()
    closing = topology.closing_edges()
    forward = [edge for edge in labels if edge not in closing]
    columns = _columns(layers, forward)
    widths = [max((_box_width(topology, slot) for slot in column if isinstance(slot, str)), default=0.0) for column in columns]
    lefts, right = [], float(MARGIN)
    for number, width in enumerate(widths):
        lefts.append(right)
        longest = max((len(line) for edge in forward if layers[edge[0]] == number for line in labels[edge]), default=0)
        right += width + 70 + longest * SMALL_CHARACTER
    most = max(map(len, columns), default=1)
    places: dict[Slot, Point] = {}
    for number, column in enumerate(columns):
        top = HEADLINE + MARGIN + (most - len(column)) * ROW_HEIGHT / 2
        for row, slot in enumerate(column):
            places[slot] = (lefts[number], top + row * ROW_HEIGHT)
    boxes = {slot: _Box(*place, widths[layers[slot]]) for slot, place in places.items() if isinstance(slot, str)}
    edges = {edge: _points(edge, layers, boxes, places, widths) for edge in forward}
    width = max([box.x + box.width for box in boxes.values()], default=0.0) + MARGIN
    return _Layout(boxes, edges, max(width, MARGIN * 2 + len(topology.name) * 10.0), HEADLINE + MARGIN + most * ROW_HEIGHT)


def _columns(layers: Mapping[str, int], forward: Iterable[Edge]) -> list[list[Slot]]:
    """Return the slots of each layer, top to bottom, in an order that crosses few edges (barycentres, as Sugiyama's method)."""
    columns: list[list[Slot]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for component_id, layer in layers.items():
        columns[layer].append(component_id)
    sources: dict[Slot, list[Slot]] = {}
    targets: dict[Slot, list[Slot]] = {}
    for source, target in forward:
        previous: Slot = source
        for layer in range(layers[source] + 1, layers[target] + 1):
            current: Slot = target if layer == layers[target] else (source, target, layer)
            if current != target:
                columns[layer].append(current)
            sources.setdefault(current, []).append(previous)
            targets.setdefault(previous, []).append(current)
            previous = current
    for sweep in range(ORDERING_SWEEPS):
        neighbours, ordered = (sources, columns[1:]) if sweep % 2 == 0 else (targets, columns[-2::-1])
        for column in ordered:
            _sort_by_neighbours(column, columns, neighbours)
    return columns


def _sort_by_neighbours(column: list[Slot], columns: list[list[Slot]], neighbours: Mapping[Slot, list[Slot]]) -> None:
    """Sort a layer by the mean place of each slot's neighbours; one without any keeps its place."""
    place = {slot: (row + 0.5) / len(any_column) for any_column in columns for row, slot in enumerate(any_column)}

    def mean(slot: Slot) -> float:
        near = neighbours.get(slot, [slot])
        return sum(place[other] for other in near) / len(near)

    column.sort(key=mean)


def _points(
    edge: Edge, layers: Mapping[str, int], boxes: Mapping[str, _Box], places: Mapping[Slot, Point], widths: list[float]
) -> tuple[Point, ...]:
    """Return the points that an edge passes: out of its source, straight through each layer between, into its target."""
    source, target = boxes[edge[0]], boxes[edge[1]]
    points: list[Point] = [(source.x + widths[layers[edge[0]]], source.middle)]
    for layer in range(layers[edge[0]] + 1, layers[edge[1]]):
        x, y = places[(*edge, layer)]
        points += [(x, y + BOX_HEIGHT / 2), (x + widths[layer], y + BOX_HEIGHT / 2)]
    return (*points, (target.x, target.middle))


def _curve(points: tuple[Point, ...], lines: tuple[str, ...], layout: _Layout) -> tuple[str, str]:
    """Return the drawing of an edge and of its label, which stands nearer to the source, where fewer edges meet."""
    path = [f"M {_number(points[0][0])} {_number(points[0][1])}"]
    for (x1, y1), (x2, y2) in zip(points[::2], points[1::2], strict=True):
        bend = (x2 - x1) / 2
        if (x1, y1) != points[0]:
            path.append(f"L {_number(x1)} {_number(y1)}")
        path.append(f"C {_number(x1 + bend)} {_number(y1)} {_number(x2 - bend)} {_number(y2)} {_number(x2)} {_number(y2)}")
    (x1, y1), (x2, y2) = points[0], points[1]
    at = layout.place((x1 + x2) / 2 - 4, y1 + (y2 - y1) * 0.4, lines)
    return f'<path d="{" ".join(path)}" class="edge" marker-end="url(#arrow)"/>', _label(at, lines)


def _loop(edge: Edge, lines: tuple[str, ...], layout: _Layout) -> tuple[str, str]:
    """Return the drawing of an edge that closes a cycle: from bottom to bottom, below all boxes (a self-loop: below its own)."""
    source, target = layout.boxes[edge[0]], layout.boxes[edge[1]]
    x1, x2 = source.x + source.width * 0.62, target.x + target.width * 0.38
    lowest = source.y if source is target else max(box.y for box in layout.boxes.values())
    depth = lowest + BOX_HEIGHT + LOOP_DEPTH if source is target else max(layout.height - MARGIN, lowest + BOX_HEIGHT) + LOOP_DEPTH
    start, end = _number(source.y + BOX_HEIGHT), _number(target.y + BOX_HEIGHT)
    path = f"M {_number(x1)} {start} C {_number(x1)} {_number(depth)} {_number(x2)} {_number(depth)} {_number(x2)} {end}"
    middle = ((source.y + target.y) / 2 + BOX_HEIGHT) * 0.25 + depth * 0.75
    at = layout.place((x1 + x2) / 2, middle + (LABEL_LINE if source is target else 0), lines)
    layout.height = max(layout.height, depth + MARGIN)
    return f'<path d="{path}" class="edge closing" marker-end="url(#arrow)"/>', _label(at, lines)


def _head(name: str, layout: _Layout) -> list[str]:
    width, height = _number(layout.width), _number(layout.height)
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{_text(name)}</title>",
        "<style>",
        "text { font-family: system-ui, sans-serif; fill: #1b2733; text-anchor: middle; dominant-baseline: middle; }",
        ".headline { font-size: 17px; font-weight: 600; text-anchor: start; } .id { font-size: 14px; font-weight: 600; }",
        ".small { font-size: 11px; fill: #44566a; } .behind { fill: #ffffff; } .edge { fill: none; stroke: #5b6f85; stroke-width: 1.4; }",
        ".closing { stroke-dasharray: 5 4; } .box { stroke: #33475b; stroke-width: 1.2; fill: #f2f5f9; } .spout { fill: #e3f1e6; }",
        f".committer {{ stroke: {COMMITTER_COLOUR}; stroke-width: 3; }}",
        "</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 z" fill="#5b6f85"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]


def _box(topology: Topology, component_id: str, box: _Box) -> str:
    spec = topology.components[component_id]
    middle = _number(box.x + box.width / 2)
    corner = BOX_HEIGHT / 2 if spec.kind == "spout" else 6
    return (
        f'<g><rect x="{_number(box.x)}" y="{_number(box.y)}" width="{_number(box.width)}" height="{BOX_HEIGHT}" '
        f'rx="{_number(corner)}" class="box {spec.kind}{" committer" if spec.is_outlined else ""}"/>'
        f'<text x="{middle}" y="{_number(box.middle - 8)}" class="id">{_text(component_id)}</text>'
        f'<text x="{middle}" y="{_number(box.middle + 11)}" class="small">{_text(subtitle(spec))}</text></g>'
    )


def _label(at: Point, lines: tuple[str, ...]) -> str:
    x, top = at[0], at[1] - (len(lines) - 1) * LABEL_LINE / 2
    spans = (f'<tspan x="{_number(x)}" y="{_number(top + row * LABEL_LINE)}">{_text(line)}</tspan>' for row, line in enumerate(lines))
    half_width, half_height = max(map(len, lines)) * SMALL_CHARACTER / 2, len(lines) * LABEL_LINE / 2
    behind = (
        f'<rect x="{_number(x - half_width)}" y="{_number(at[1] - half_height)}" width="{_number(2 * half_width)}" '
        f'height="{_number(2 * half_height)}" class="behind"/>'
    )
    return f'{behind}<text class="small">{"".join(spans)}</text>'


def _box_width(topology: Topology, component_id: str) -> float:
    return max(len(component_id) * TITLE_CHARACTER, len(subtitle(topology.components[component_id])) * SMALL_CHARACTER) + 36


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """Return the text for XML; what XML cannot hold becomes `?`."""
    return html.escape("".join(character if character.isprintable() else "?" for character in text))
