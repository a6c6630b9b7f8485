// The graph of components: a box for each component, and edges that are as thick as their rate.

import { Bar } from "./charts.js";
import { el, setAttr, setClass, setShown, setStyle, setText, svg } from "./dom.js";
import { count, heat, percent, plural, rate, short } from "./format.js";
import { BOX, LABEL, TIP, edgeKey, labelPlaces, layout } from "./layout.js";

const THIN = 1.5;
const THICK = 7;

/** Shows the graph in a host element. onSelect(id) is called when a box is chosen. */
export class Graph {
  constructor(host, onSelect) {
    this.onSelect = onSelect;
    this.lines = svg("g");
    this.names = svg("g");
    this.picture = svg("svg", { class: "edges", "aria-hidden": "true" }, this.lines, this.names);
    this.canvas = el("div", { class: "canvas" }, this.picture);
    host.append(this.canvas);
    this.boxes = new Map();
    this.edges = new Map();
    this.components = [];
    this.links = [];
    this.showsSystem = false;
    this.size = { width: 0, height: 0 };
  }

  /** Build boxes and edges. Called once per topology, and when system components are shown or hidden. */
  build({ components, edges }, showsSystem) {
    this.components = components;
    this.links = edges;
    this.showsSystem = showsSystem;
    const shown = components.filter((component) => showsSystem || !component.system);
    const plan = layout(shown, edges);
    for (const part of [...this.boxes.values(), ...this.edges.values()]) part.remove();
    this.boxes.clear();
    this.edges.clear();
    for (const pair of plan.edges) this.edges.set(pair.key, new Edge(pair, this.lines, this.names));
    const inOrder = [...shown].sort((a, b) => {
      const [first, second] = [plan.boxes.get(a.id), plan.boxes.get(b.id)];
      return first.x - second.x || first.y - second.y;
    });
    for (const component of inOrder) {
      const box = new Box(component, plan.boxes.get(component.id), () => this.onSelect(component.id));
      this.boxes.set(component.id, box);
      this.canvas.append(box.element);
    }
    this.plan = plan;
    this.zoom = null;
    this.size = { width: plan.width, height: plan.height };
    setAttr(this.picture, "width", plan.width);
    setAttr(this.picture, "height", plan.height);
    setStyle(this.canvas, "width", `${plan.width}px`);
    setStyle(this.canvas, "height", `${plan.height}px`);
    this.bottleneck = this.selected = undefined;
    this.holdTab([...this.boxes.keys()][0]);
  }

  /** Write labels and names `zoom` times as large, to keep them readable in a small picture. */
  enlarge(zoom) {
    if (zoom === this.zoom) return;
    this.zoom = zoom;
    const places = labelPlaces(this.plan.edges, this.plan.boxes, zoom);
    [...this.edges.values()].forEach((edge, index) => edge.put(places[index]));
  }

  /** Write the figures of a sample. */
  show(sample) {
    for (const component of sample.components) this.boxes.get(component.id)?.show(component);
    const rates = new Map();
    for (const { source, target, rate: each } of sample.edges) {
      const key = edgeKey(source, target);
      if (typeof each === "number") rates.set(key, (rates.get(key) ?? 0) + each);
    }
    let most = 0;
    for (const key of this.edges.keys()) most = Math.max(most, rates.get(key) ?? 0);
    for (const [key, edge] of this.edges) edge.show(rates.get(key), most);
    this.mark(sample.bottleneck?.component ?? null);
  }

  /** Mark the component that limits the run. */
  mark(id) {
    if (id === this.bottleneck) return;
    this.boxes.get(this.bottleneck)?.mark(false);
    this.boxes.get(id)?.mark(true);
    this.bottleneck = id;
  }

  /** Mark the selected component and its edges. */
  select(id) {
    if (id === this.selected) return;
    for (const each of [this.selected, id]) this.boxes.get(each)?.select(each === id);
    for (const edge of this.edges.values()) edge.select(edge.source === id || edge.target === id);
    this.selected = id;
    if (this.boxes.has(id)) this.holdTab(id);
  }

  /** Dim the components that do not contain a text. Returns the ids of the others. */
  filter(text) {
    const found = [];
    for (const [id, box] of this.boxes) {
      const isFound = id.toLowerCase().includes(text);
      setClass(box.element, "dim", !isFound);
      if (isFound) found.push(id);
    }
    return found;
  }

  /** Make one box the stop of the Tab key. Arrow keys move between boxes. */
  holdTab(id) {
    if (this.tabbed !== undefined) this.boxes.get(this.tabbed)?.holdTab(false);
    this.boxes.get(id)?.holdTab(true);
    this.tabbed = id;
  }

  /** Move the focus from a box to the nearest one in the direction of an arrow key. */
  step(key, from) {
    const here = this.boxes.get(from)?.place;
    if (!here) return;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    let best = null;
    for (const [id, { place }] of this.boxes) {
      const along = (place.x - here.x) * dx + (place.y - here.y) * dy;
      const across = Math.abs((place.x - here.x) * dy) + Math.abs((place.y - here.y) * dx);
      if (along > 1 && (dy === 0 || across < 1) && (!best || along + 2 * across < best.cost)) best = { id, cost: along + 2 * across };
    }
    if (best) this.focus(best.id);
  }

  focus(id) {
    this.holdTab(id);
    this.boxes.get(id)?.element.focus();
  }
}

/** Return the larger of two shares: of the busiest task in its code, and of all tasks that hold the loop. All components share one loop. */
export function loadOf(component) {
  if (typeof component.capacity !== "number") return component.loop_share;
  return Math.max(component.capacity, component.loop_share ?? 0);
}

/** One component. */
class Box {
  constructor(component, place, onClick) {
    this.place = place;
    this.isSpout = component.kind === "spout";
    const part = (name, attributes = {}) => (this[name] = el("span", { class: `box-${name}`, ...attributes }));
    const head = el("span", { class: "box-head" }, part("name", { class: "box-name user" }), part("tasks"));
    const figures = el("span", { class: "box-figures" }, part("rate"), part("waiting"));
    this.bar = new Bar();
    this.share = el("span", { class: "box-share" });
    const load = el("span", { class: "box-load" }, this.bar.element, this.share);
    this.limit = el("span", { class: "box-limit", text: "limits the run" });
    this.failed = el("span", { class: "box-failed" });
    const classes = `box ${this.isSpout ? "spout" : "bolt"}${component.system ? " system" : ""}`;
    this.element = el("button", { class: classes, type: "button", tabindex: -1, "aria-pressed": "false", onclick: onClick });
    this.element.append(this.limit, this.failed, head, figures, load);
    setAttr(this.element, "data-id", component.id);
    setText(this.name, component.id);
    setAttr(this.name, "title", component.id);
    setShown(this.limit, false);
    setShown(this.failed, false);
    setStyle(this.element, "transform", `translate(${place.x - BOX.width / 2}px, ${place.y - BOX.height / 2}px)`);
    setText(this.tasks, component.tasks > 1 ? `×${component.tasks}` : "");
    setAttr(this.tasks, "title", `${plural(component.tasks, "task")}, ${component.kind}`);
  }

  show(component) {
    setText(this.rate, rate(this.isSpout ? component.out_rate : component.in_rate));
    this.showWaiting(component);
    const load = loadOf(component);
    setText(this.share, percent(load));
    setAttr(this.share, "title", `Busiest task in its code: ${percent(component.capacity)}. All tasks hold the loop: ${percent(component.loop_share)}`);
    setAttr(this.element, "data-heat", heat(load));
    this.bar.show(load, component.loop_share);
    this.showFailed(component);
  }

  showWaiting(component) {
    if (this.isSpout && component.pending !== null && component.pending !== undefined) {
      const limit = component.max_pending ?? Infinity;
      setText(this.waiting, `${short(component.pending)} open`);
      setAttr(this.waiting, "title", limit === Infinity ? "Open trees" : `Open trees, at most ${count(limit)}`);
      setClass(this.waiting, "full", component.pending >= limit);
      return;
    }
    setText(this.waiting, component.waiting ? `${count(component.waiting)} waiting` : "");
    setClass(this.waiting, "full", (component.fill ?? 0) >= 0.5);
  }

  showFailed(component) {
    const failed = component.failed ?? 0;
    const errors = component.errors ?? 0;
    setShown(this.failed, failed > 0 || errors > 0);
    if (failed > 0) setText(this.failed, `${short(failed)} failed`);
    else if (errors > 0) setText(this.failed, plural(errors, "error"));
    setClass(this.failed, "now", (component.failed_rate ?? 0) > 0);
  }

  mark(isMarked) {
    setClass(this.element, "limiting", isMarked);
    setShown(this.limit, isMarked);
  }

  select(isSelected) {
    setAttr(this.element, "aria-pressed", String(isSelected));
  }

  holdTab(isHeld) {
    setAttr(this.element, "tabindex", isHeld ? 0 : -1);
  }

  remove() {
    this.element.remove();
  }
}

/** All streams from one component to another one. */
class Edge {
  constructor(pair, lines, names) {
    this.source = pair.source;
    this.target = pair.target;
    this.title = svg("title", { text: `${pair.source} → ${pair.target}: ${pair.streams.join(", ")}` });
    this.line = svg("path", { class: "edge", d: pair.path, "stroke-width": THIN });
    const [x, y] = pair.end;
    this.head = svg("path", { class: "arrow", d: `M${x - 1} ${y - 6}L${x + TIP} ${y}L${x - 1} ${y + 6}Z` });
    this.group = svg("g", { class: "link" }, this.title, svg("path", { class: "edge-hit", d: pair.path }), this.line, this.head);
    this.rate = svg("text");
    const ground = svg("rect", { x: -LABEL.width / 2, y: -LABEL.height / 2, width: LABEL.width, height: LABEL.height });
    this.label = svg("g", { class: "edge-rate" }, ground, this.rate);
    lines.append(this.group);
    names.append(this.label);
    this.group.addEventListener("pointerenter", () => this.select(true, "pointed"));
    this.group.addEventListener("pointerleave", () => this.select(false, "pointed"));
  }

  /** most: the largest rate of an edge. The width grows with the square root, in quarters of a pixel. */
  show(value, most) {
    setText(this.rate, value === undefined ? "" : rate(value));
    setClass(this.label, "empty", value === undefined);
    const width = value > 0 && most > 0 ? THIN + (THICK - THIN) * Math.sqrt(value / most) : THIN;
    setAttr(this.line, "stroke-width", Math.round(width * 4) / 4);
    setClass(this.group, "idle", !(value > 0));
  }

  put({ place: [x, y], isFree }) {
    setClass(this.label, "spare", !isFree);
    setStyle(this.label, "--x", `${x.toFixed(1)}px`);
    setStyle(this.label, "--y", `${y.toFixed(1)}px`);
  }

  select(isOn, name = "chosen") {
    setClass(this.group, name, isOn);
    setClass(this.label, name, isOn);
  }

  remove() {
    this.group.remove();
    this.label.remove();
  }
}
