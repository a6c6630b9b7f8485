"""Draws a topology as Mermaid, Graphviz DOT or SVG.

The SVG has layers from left to right, one box per component, and one labelled curve per pair of components. Sizes are in
pixels. Text widths are estimates: the average character width of the font, plus a margin.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from engine.svg import svg_document, svg_element, svg_number, svg_text
from engine.topology.marks import time_words
from engine.topology.spec import ComponentSpec, Edge, Topology

COMMITTER_COLOUR: Final = "#c0392b"
"""Outline of committers. Storm's documentation draws them red too."""

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
Words: TypeAlias = Mapping[str, str]
"""More words for the text below an id, by component id."""
NO_WORDS: Final[Words] = MappingProxyType({})
Slot: TypeAlias = str | tuple[str, str, int]
"""Occupant of one place in a layer: a component id, or an edge (source, target, layer) that passes through the layer."""

_STYLE: Final = f"""\
text {{ font-family: system-ui, sans-serif; fill: #1b2733; text-anchor: middle; dominant-baseline: middle; }}
.headline {{ font-size: 17px; font-weight: 600; text-anchor: start; }} .id {{ font-size: 14px; font-weight: 600; }}
.small {{ font-size: 11px; fill: #44566a; }} .behind {{ fill: #ffffff; }} .edge {{ fill: none; stroke: #5b6f85; stroke-width: 1.4; }}
.closing {{ stroke-dasharray: 5 4; }} .box {{ stroke: #33475b; stroke-width: 1.2; fill: #f2f5f9; }} .spout {{ fill: #e3f1e6; }}
.committer {{ stroke: {COMMITTER_COLOUR}; stroke-width: 3; }}"""

_ARROW: Final = """\
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M 0 0 L 8 4 L 0 8 z" fill="#5b6f85"/></marker></defs>"""


def mermaid(topology: Topology, words: Words = NO_WORDS) -> str:
    """Return a Mermaid flowchart: spouts are rounded, committers outlined, edges that close a cycle dotted. words: below each id."""
    names = {component_id: f"c{number}" for number, component_id in enumerate(topology.components)}
    lines = ["---", f"title: {_mermaid_title(topology.name)}", "---", "flowchart LR"]
    for component_id, spec in topology.components.items():
        text = f'"{_mermaid_text(component_id)}<br/>{_subtitle(spec, words)}"'
        outlined = ":::committer" if spec.is_outlined else ""
        lines.append(f"    {names[component_id]}" + (f"([{text}])" if spec.kind == "spout" else f"[{text}]{outlined}"))
    if any(spec.is_outlined for spec in topology.bolts):
        lines.append(f"    classDef committer stroke:{COMMITTER_COLOUR},stroke-width:3px")
    closing = topology.closing_edges()
    for (source, target), labels in _edge_labels(topology).items():
        arrow = "-.->" if (source, target) in closing else "-->"
        text = "<br/>".join(map(_mermaid_text, labels))
        lines.append(f'    {names[source]} {arrow}|"{text}"| {names[target]}')
    return "\n".join(lines) + "\n"


def dot(topology: Topology, words: Words = NO_WORDS) -> str:
    """Return a Graphviz digraph: spouts are ellipses, committers outlined, edges that close a cycle dashed. words: below each id."""
    lines = [
        f"digraph {_dot_text(topology.name)} {{",
        "    rankdir=LR;",
        '    node [fontname="sans-serif", shape=box, style=rounded];',
        '    edge [fontname="sans-serif", fontsize=10];',
    ]
    for component_id, spec in topology.components.items():
        shape = ", shape=ellipse" if spec.kind == "spout" else ""
        outline = f', color="{COMMITTER_COLOUR}", penwidth=3' if spec.is_outlined else ""
        lines.append(f"    {_dot_text(component_id)} [label={_dot_text(component_id, _subtitle(spec, words))}{shape}{outline}];")
    closing = topology.closing_edges()
    for (source, target), labels in _edge_labels(topology).items():
        # An edge that closes a cycle must not pull its target to the right of its source.
        style = ", style=dashed, constraint=false" if (source, target) in closing else ""
        lines.append(f"    {_dot_text(source)} -> {_dot_text(target)} [label={_dot_text(*labels)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def svg(topology: Topology, words: Words = NO_WORDS) -> str:
    """Return a complete SVG document. words: below each id.

    Spouts have round ends and committers a thick outline. Edges that close a cycle are dashed and run below the boxes.
    """
    labels = _edge_labels(topology)
    closing = topology.closing_edges()
    layout = _lay_out(topology, labels, words)
    curves = [_curve(points, labels[edge], layout) for edge, points in layout.edges.items()]
    curves += [_loop(edge, labels[edge], layout) for edge in labels if edge in closing]
    boxes = [_draw_box(topology, component_id, box, words) for component_id, box in layout.boxes.items()]
    paper = svg_element("rect", width=layout.width, height=layout.height, fill="#ffffff")
    headline = svg_element("text", svg_text(topology.name), x=MARGIN, y=MARGIN, class_="headline")
    parts = [_ARROW, paper, headline, *(curve for curve, _ in curves), *boxes, *(label for _, label in curves)]
    return svg_document(layout.width, layout.height, topology.name, _STYLE, *parts)


def _edge_labels(topology: Topology) -> dict[Edge, tuple[str, ...]]:
    """Return one label per subscription of each edge: `default · fields(word)`."""
    labels: dict[Edge, tuple[str, ...]] = {}
    for spec in topology.components.values():
        for subscription in spec.subscriptions:
            edge = (subscription.source, spec.component_id)
            labels[edge] = (*labels.get(edge, ()), f"{subscription.stream} · {subscription.grouping.label}")
    return labels


def _subtitle(spec: ComponentSpec, words: Words) -> str:
    """Return the text below a component's id: `bolt × 4`, or the label that a feature has given: `committer × 1`."""
    label, more = spec.label or f"{spec.kind} × {spec.parallelism}", words.get(spec.component_id, "")
    shown = label if more in label else f"{label} · {more}"
    return f"{shown} · {time_words(spec)}" if spec.settings.event_time is not None else shown


_MERMAID_CODES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "\n": " "})


def _mermaid_text(text: str) -> str:
    return text.translate(_MERMAID_CODES)


def _mermaid_title(text: str) -> str:
    """Return the text as a YAML scalar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _dot_text(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
    return '"' + "\\n".join(escaped) + '"'


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
    """Positions of the boxes, edges and labels, and the size of the picture."""

    boxes: dict[str, _Box]
    edges: dict[Edge, tuple[Point, ...]]
    width: float
    height: float
    labels: list[tuple[float, float, float, float]] = field(default_factory=list)
    """Rectangles (left, top, right, bottom) of the labels placed so far."""

    def place_label(self, x: float, y: float, lines: tuple[str, ...]) -> Point:
        """Return the centre of a new label: (x, y), or the first free place below other labels."""
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


def _lay_out(topology: Topology, labels: Mapping[Edge, tuple[str, ...]], words: Words) -> _Layout:
    layers = topology.layers()
    closing = topology.closing_edges()
    forward = [edge for edge in labels if edge not in closing]
    columns = ordered_columns(layers, forward)
    widths = [max((_box_width(topology, slot, words) for slot in column if isinstance(slot, str)), default=0.0) for column in columns]
    longest = [0] * len(columns)  # line of a label behind each layer
    for edge in forward:
        longest[layers[edge[0]]] = max(longest[layers[edge[0]]], *map(len, labels[edge]))
    lefts, right = [], float(MARGIN)
    for width, characters in zip(widths, longest, strict=True):
        lefts.append(right)
        right += width + 70 + characters * SMALL_CHARACTER
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


def ordered_columns(layers: Mapping[str, int], forward: Iterable[Edge]) -> list[list[Slot]]:
    """Return the slots of each layer, top to bottom, ordered to cross few edges (barycentres, as in Sugiyama's method)."""
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
    heights = {slot: (row + 0.5) / len(column) for column in columns for row, slot in enumerate(column)}
    for sweep in range(ORDERING_SWEEPS):
        neighbours, ordered = (sources, columns[1:]) if sweep % 2 == 0 else (targets, columns[-2::-1])
        for column in ordered:
            _sort_by_neighbours(column, heights, neighbours)
    return columns


def _sort_by_neighbours(column: list[Slot], heights: dict[Slot, float], neighbours: Mapping[Slot, list[Slot]]) -> None:
    """Sort a layer by the mean height of each slot's neighbours. A slot without neighbours keeps its place.

    heights: of all slots, from 0 to 1. Those of the layer are updated.
    """

    def mean(slot: Slot) -> float:
        near = neighbours.get(slot, [slot])
        return sum(heights[other] for other in near) / len(near)

    column.sort(key=mean)
    heights.update((slot, (row + 0.5) / len(column)) for row, slot in enumerate(column))


def _points(
    edge: Edge, layers: Mapping[str, int], boxes: Mapping[str, _Box], places: Mapping[Slot, Point], widths: list[float]
) -> tuple[Point, ...]:
    """Return the points of an edge: out of its source, straight through each layer between, into its target."""
    source, target = boxes[edge[0]], boxes[edge[1]]
    points: list[Point] = [(source.x + widths[layers[edge[0]]], source.middle)]
    for layer in range(layers[edge[0]] + 1, layers[edge[1]]):
        x, y = places[(*edge, layer)]
        points += [(x, y + BOX_HEIGHT / 2), (x + widths[layer], y + BOX_HEIGHT / 2)]
    return (*points, (target.x, target.middle))


def _curve(points: tuple[Point, ...], lines: tuple[str, ...], layout: _Layout) -> tuple[str, str]:
    """Draw an edge and its label. The label is nearer to the source, because fewer edges meet there."""
    path = [f"M {_pair(points[0])}"]
    for (x1, y1), (x2, y2) in zip(points[::2], points[1::2], strict=True):
        bend = (x2 - x1) / 2
        if (x1, y1) != points[0]:
            path.append(f"L {_pair((x1, y1))}")
        path.append(f"C {_pair((x1 + bend, y1))} {_pair((x2 - bend, y2))} {_pair((x2, y2))}")
    (x1, y1), (x2, y2) = points[0], points[1]
    at = layout.place_label((x1 + x2) / 2 - 4, y1 + (y2 - y1) * 0.4, lines)
    return svg_element("path", d=" ".join(path), class_="edge", marker_end="url(#arrow)"), _draw_label(at, lines)


def _loop(edge: Edge, lines: tuple[str, ...], layout: _Layout) -> tuple[str, str]:
    """Draw an edge that closes a cycle, and its label.

    The edge runs below all boxes, from the bottom of its source to the bottom of its target. A self-loop stays below its own box.
    """
    source, target = layout.boxes[edge[0]], layout.boxes[edge[1]]
    x1, x2 = source.x + source.width * 0.62, target.x + target.width * 0.38
    lowest = source.y if source is target else max(box.y for box in layout.boxes.values())
    depth = lowest + BOX_HEIGHT + LOOP_DEPTH if source is target else max(layout.height - MARGIN, lowest + BOX_HEIGHT) + LOOP_DEPTH
    start, end = (x1, source.y + BOX_HEIGHT), (x2, target.y + BOX_HEIGHT)
    path = f"M {_pair(start)} C {_pair((x1, depth))} {_pair((x2, depth))} {_pair(end)}"
    middle = ((source.y + target.y) / 2 + BOX_HEIGHT) * 0.25 + depth * 0.75
    at = layout.place_label((x1 + x2) / 2, middle + (LABEL_LINE if source is target else 0), lines)
    layout.height = max(layout.height, depth + MARGIN)
    return svg_element("path", d=path, class_="edge closing", marker_end="url(#arrow)"), _draw_label(at, lines)


def _draw_box(topology: Topology, component_id: str, box: _Box, words: Words) -> str:
    spec = topology.components[component_id]
    middle = box.x + box.width / 2
    corner = BOX_HEIGHT / 2 if spec.kind == "spout" else 6
    style = f"box {spec.kind}{' committer' if spec.is_outlined else ''}"
    return svg_element(
        "g",
        svg_element("rect", x=box.x, y=box.y, width=box.width, height=BOX_HEIGHT, rx=corner, class_=style),
        svg_element("text", svg_text(component_id), x=middle, y=box.middle - 8, class_="id"),
        svg_element("text", svg_text(_subtitle(spec, words)), x=middle, y=box.middle + 11, class_="small"),
    )


def _draw_label(at: Point, lines: tuple[str, ...]) -> str:
    x, top = at[0], at[1] - (len(lines) - 1) * LABEL_LINE / 2
    width, height = max(map(len, lines)) * SMALL_CHARACTER, len(lines) * LABEL_LINE
    behind = svg_element("rect", x=x - width / 2, y=at[1] - height / 2, width=width, height=height, class_="behind")
    spans = (svg_element("tspan", svg_text(line), x=x, y=top + row * LABEL_LINE) for row, line in enumerate(lines))
    return behind + svg_element("text", *spans, class_="small")


def _box_width(topology: Topology, component_id: str, words: Words) -> float:
    subtitle = _subtitle(topology.components[component_id], words)
    return max(len(component_id) * TITLE_CHARACTER, len(subtitle) * SMALL_CHARACTER) + 36


def _pair(point: Point) -> str:
    return f"{svg_number(point[0])} {svg_number(point[1])}"
