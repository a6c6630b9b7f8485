"""A topology as a drawing in text: Mermaid and Graphviz DOT. The SVG is in `svg`."""

from typing import Final

from engine.topology.spec import ComponentSpec, Edge, Topology


def edge_labels(topology: Topology) -> dict[Edge, tuple[str, ...]]:
    """Return, for each (source, target), one label per subscription: `default · fields(word)`."""
    labels: dict[Edge, tuple[str, ...]] = {}
    for spec in topology.components.values():
        for subscription in spec.subscriptions:
            edge = (subscription.source, spec.component_id)
            labels[edge] = (*labels.get(edge, ()), f"{subscription.stream} · {subscription.grouping.label}")
    return labels


def subtitle(spec: ComponentSpec) -> str:
    """Return what stands below a component's id: `bolt × 4`, of a transactional topology also when it finishes: `committer × 1`."""
    return spec.label or f"{spec.kind} × {spec.parallelism}"


COMMITTER_COLOUR: Final = "#c0392b"
"""Of the outline of committers, as Storm's own pages draw them."""


def mermaid(topology: Topology) -> str:
    """Return a Mermaid flowchart: spouts are rounded, committers outlined, edges that close a cycle dotted."""
    names = {component_id: f"c{number}" for number, component_id in enumerate(topology.components)}
    lines = ["---", f"title: {_mermaid_title(topology.name)}", "---", "flowchart LR"]
    for component_id, spec in topology.components.items():
        text = f'"{_mermaid_text(component_id)}<br/>{subtitle(spec)}"'
        outlined = ":::committer" if spec.is_outlined else ""
        lines.append(f"    {names[component_id]}" + (f"([{text}])" if spec.kind == "spout" else f"[{text}]{outlined}"))
    if any(spec.is_outlined for spec in topology.bolts):
        lines.append(f"    classDef committer stroke:{COMMITTER_COLOUR},stroke-width:3px")
    closing = topology.closing_edges()
    for (source, target), labels in edge_labels(topology).items():
        arrow = "-.->" if (source, target) in closing else "-->"
        text = "<br/>".join(map(_mermaid_text, labels))
        lines.append(f'    {names[source]} {arrow}|"{text}"| {names[target]}')
    return "\n".join(lines) + "\n"


def dot(topology: Topology) -> str:
    """Return a Graphviz digraph: spouts are ellipses, committers outlined, edges that close a cycle dashed."""
    lines = [
        f"digraph {_dot_text(topology.name)} {{",
        "    rankdir=LR;",
        '    node [fontname="sans-serif", shape=box, style=rounded];',
        '    edge [fontname="sans-serif", fontsize=10];',
    ]
    for component_id, spec in topology.components.items():
        shape = ", shape=ellipse" if spec.kind == "spout" else ""
        outline = f', color="{COMMITTER_COLOUR}", penwidth=3' if spec.is_outlined else ""
        lines.append(f"    {_dot_text(component_id)} [label={_dot_text(component_id, subtitle(spec))}{shape}{outline}];")
    closing = topology.closing_edges()
    for (source, target), labels in edge_labels(topology).items():
        # An edge that closes a cycle must not pull its target behind its source.
        style = ", style=dashed, constraint=false" if (source, target) in closing else ""
        lines.append(f"    {_dot_text(source)} -> {_dot_text(target)} [label={_dot_text(*labels)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


_MERMAID_CODES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "\n": " "})


def _mermaid_text(text: str) -> str:
    return text.translate(_MERMAID_CODES)


def _mermaid_title(text: str) -> str:
    """Return the text as a YAML scalar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _dot_text(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
    return '"' + "\\n".join(escaped) + '"'
