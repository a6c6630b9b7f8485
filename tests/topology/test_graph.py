"""Drawings are well formed, complete, and safe for any name."""

import re
from xml.etree import ElementTree

import pytest

from engine.api import Bolt, Fields, Spout
from engine.topology import Topology, TopologyBuilder
from engine.topology.graph import dot, mermaid, svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a "quoted" <b>&amp; \\ `c` #1 \x00 × 中'


class Source(Spout):
    output_fields = {"default": Fields("word"), "late": Fields("word")}

    def next_tuple(self) -> None:
        pass


class Step(Bolt):
    output_fields = {"default": Fields("word"), "again": Fields("word", direct=True)}

    def execute(self, tup) -> None:
        pass


def word_count() -> Topology:
    builder = TopologyBuilder("word-count")
    builder.set_spout("lines", Source, parallelism=2, max_spout_pending=10)
    builder.set_bolt("split", Step, parallelism=3).shuffle_grouping("lines").direct_grouping("count", "again")
    builder.set_bolt("count", Step, parallelism=4).fields_grouping("split", "word").all_grouping("lines", "late")
    builder.set_bolt("sink", Step).global_grouping("count").shuffle_grouping("lines", "late").shuffle_grouping("lines")
    return builder.build()


def named(name: str) -> Topology:
    builder = TopologyBuilder(name)
    builder.set_spout(name, Source)
    builder.set_bolt(name + "2", Step).shuffle_grouping(name)
    return builder.build()


def texts(document: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(document).iter(f"{SVG}text")]


def test_mermaid_names_each_component_and_edge() -> None:
    assert (
        mermaid(word_count())
        == """---
title: "word-count"
---
flowchart LR
    c0(["lines<br/>spout × 2"])
    c1["split<br/>bolt × 3"]
    c2["count<br/>bolt × 4"]
    c3["sink<br/>bolt × 1"]
    c0 -->|"default · shuffle"| c1
    c2 -.->|"again · direct"| c1
    c1 -->|"default · fields(word)"| c2
    c0 -->|"late · all"| c2
    c2 -->|"default · global"| c3
    c0 -->|"late · shuffle<br/>default · shuffle"| c3
"""
    )


def test_dot_names_each_component_and_edge() -> None:
    text = dot(word_count())
    assert text.startswith('digraph "word-count" {\n    rankdir=LR;\n')
    assert '    "lines" [label="lines\\nspout × 2", shape=ellipse];\n' in text
    assert '    "split" -> "count" [label="default · fields(word)"];\n' in text
    assert '    "count" -> "split" [label="again · direct", style=dashed, constraint=false];\n' in text
    assert text.endswith("}\n")


def test_svg_shows_each_component_and_label_once() -> None:
    headline, *shown = texts(svg(word_count()))
    boxes = ["lines", "spout × 2", "split", "bolt × 3", "count", "bolt × 4", "sink", "bolt × 1"]
    labels = ["default · shuffle", "again · direct", "default · fields(word)", "late · all", "default · global"]
    assert headline == "word-count"
    assert sorted(shown) == sorted([*boxes, *labels, "late · shuffledefault · shuffle"])


def test_svg_marks_the_edges_that_close_a_cycle() -> None:
    paths = [element for element in ElementTree.fromstring(svg(word_count())).iter(f"{SVG}path") if "edge" in element.get("class", "")]
    assert len(paths) == 6
    assert [path.get("class") for path in paths].count("edge closing") == 1


def test_svg_keeps_everything_inside_and_no_boxes_overlap() -> None:
    root = ElementTree.fromstring(svg(word_count()))
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = [tuple(float(box.get(key)) for key in ("x", "y", "width", "height")) for box in root.iter(f"{SVG}rect") if box.get("rx")]
    assert len(boxes) == 4
    for x, y, box_width, box_height in boxes:
        assert 0 <= x <= x + box_width <= width
        assert 0 <= y <= y + box_height <= height
    for number, (x, y, box_width, box_height) in enumerate(boxes):
        for x2, y2, width2, height2 in boxes[:number]:
            assert x + box_width <= x2 or x2 + width2 <= x or y + box_height <= y2 or y2 + height2 <= y


def test_a_hostile_name_does_not_break_a_drawing() -> None:
    topology = named(HOSTILE)
    assert HOSTILE.replace("\x00", "?") in texts(svg(topology))
    body = mermaid(topology).splitlines()[4:]
    assert all(line.count('"') == 2 for line in body)
    for line in dot(topology).splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0


@pytest.mark.parametrize("draw", [mermaid, dot, svg])
def test_drawings_are_deterministic(draw) -> None:
    assert draw(word_count()) == draw(word_count())


def test_a_single_spout_can_be_drawn() -> None:
    builder = TopologyBuilder("alone")
    builder.set_spout("lines", Source)
    assert texts(svg(builder.build())) == ["alone", "lines", "spout × 1"]
