// The window on the graph: zoom, scrolling by drag and keys, the filter, and the switch for system components.

import { setAttr, setClass, setStyle, setText } from "./dom.js";
import { plural } from "./format.js";

const SCALES = { least: 0.18, most: 1.6, first: 1.15 };
const FAR = 0.4; // below this scale, boxes show their name and their load only

/** Zooms and scrolls a graph in a scrollable element. */
export class GraphView {
  /** parts: {viewport, system, filter, found, zoomIn, zoomOut, fit}. onFilter(text) is called after a change of the filter. */
  constructor(graph, parts, { onFilter, onChoose }) {
    this.graph = graph;
    this.parts = parts;
    this.onFilter = onFilter;
    this.onChoose = onChoose;
    this.scale = 1;
    this.topology = null;
    parts.zoomIn.addEventListener("click", () => this.zoom(1.25));
    parts.zoomOut.addEventListener("click", () => this.zoom(0.8));
    parts.fit.addEventListener("click", () => this.fit());
    parts.system.addEventListener("change", () => this.rebuild());
    parts.filter.addEventListener("input", () => this.filter());
    parts.filter.addEventListener("keydown", (event) => this.filterKey(event));
    parts.viewport.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    parts.viewport.addEventListener("keydown", (event) => this.key(event));
    parts.viewport.addEventListener("pointerdown", (event) => this.drag(event));
    new ResizeObserver(() => this.resized()).observe(parts.viewport);
  }

  /** Show a topology. Returns false if it is the one that is shown already. */
  build(topology) {
    const text = JSON.stringify([topology.components, topology.edges]);
    if (text === this.text) return false;
    this.text = text;
    this.topology = topology;
    this.rebuild();
    return true;
  }

  rebuild() {
    if (!this.topology) return;
    this.graph.build(this.topology, this.parts.system.checked);
    this.isFitted = true;
    this.fit();
    this.filter();
    this.onRebuild?.();
  }

  /** Fit the graph into the window. A large graph keeps a scale at which its boxes can be told apart. */
  fit() {
    const { viewport } = this.parts;
    const { width, height } = this.graph.size;
    if (!width || !viewport.clientWidth) return;
    const ratio = Math.min(viewport.clientWidth / width, SCALES.first);
    const room = this.heightLimit();
    const best = height * ratio > room ? Math.min(ratio, Math.max(room / height, 0.3)) : ratio;
    this.setScale(Math.max(best, SCALES.least));
    this.isFitted = true;
    if (this.graph.bottleneck) this.reveal(this.graph.bottleneck);
  }

  heightLimit() {
    return Math.max(300, Math.min(window.innerHeight * 0.58, 640));
  }

  resized() {
    if (this.isFitted && this.parts.viewport.clientWidth !== this.width) this.fit();
    this.width = this.parts.viewport.clientWidth;
  }

  setScale(scale) {
    this.scale = scale;
    const { canvas, size } = this.graph;
    const { viewport } = this.parts;
    setStyle(canvas, "transform", `scale(${scale.toFixed(3)})`);
    setStyle(canvas.parentElement, "width", `${Math.ceil(size.width * scale)}px`);
    setStyle(canvas.parentElement, "height", `${Math.ceil(size.height * scale)}px`);
    setStyle(viewport, "height", `${Math.ceil(Math.min(size.height * scale + 2, this.heightLimit()))}px`);
    setClass(canvas, "far", scale < FAR);
    const zoom = (smallest, most) => Math.min(Math.max(smallest / scale, 1), most);
    setStyle(canvas, "--label-zoom", zoom(0.8, 2.2).toFixed(2));
    setStyle(canvas, "--box-zoom", zoom(0.82, 1.35).toFixed(2));
    setStyle(canvas, "--far-size", `${Math.min(Math.max(9 / scale, 20), 25).toFixed(0)}px`);
    this.graph.enlarge(scale < FAR ? 1 : zoom(0.8, 2.2));
  }

  /** Zoom around a point of the window, or around its middle. */
  zoom(factor, x = this.parts.viewport.clientWidth / 2, y = this.parts.viewport.clientHeight / 2) {
    const { viewport } = this.parts;
    const before = this.scale;
    this.setScale(Math.min(Math.max(before * factor, SCALES.least), SCALES.most));
    const ratio = this.scale / before;
    viewport.scrollLeft = (viewport.scrollLeft + x) * ratio - x;
    viewport.scrollTop = (viewport.scrollTop + y) * ratio - y;
    this.isFitted = false;
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.parts.viewport.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }

  key(event) {
    const box = event.target.closest(".box");
    if (!event.key.startsWith("Arrow") || !box) return;
    event.preventDefault();
    this.graph.step(event.key, box.dataset.id);
  }

  drag(event) {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest(".box")) return;
    const { viewport } = this.parts;
    const from = { x: event.clientX + viewport.scrollLeft, y: event.clientY + viewport.scrollTop };
    const move = (moved) => viewport.scrollTo(from.x - moved.clientX, from.y - moved.clientY);
    const end = () => {
      setClass(viewport, "dragged", false);
      for (const [name, action] of [["pointermove", move], ["pointerup", end], ["pointercancel", end]]) {
        viewport.removeEventListener(name, action);
      }
    };
    setClass(viewport, "dragged", true);
    viewport.setPointerCapture(event.pointerId);
    viewport.addEventListener("pointermove", move);
    viewport.addEventListener("pointerup", end);
    viewport.addEventListener("pointercancel", end);
  }

  /** Scroll a box into view, within the window on the graph only. */
  reveal(id) {
    const place = this.graph.boxes.get(id)?.place;
    if (!place) return;
    const { viewport } = this.parts;
    const [x, y] = [place.x * this.scale, place.y * this.scale];
    const [halfX, halfY] = [viewport.clientWidth / 2, viewport.clientHeight / 2];
    const isSeen = Math.abs(x - viewport.scrollLeft - halfX) < halfX - 60 && Math.abs(y - viewport.scrollTop - halfY) < halfY - 30;
    if (!isSeen) viewport.scrollTo(x - halfX, y - halfY);
  }

  filter() {
    const text = this.parts.filter.value.trim().toLowerCase();
    this.found = this.graph.filter(text);
    setText(this.parts.found, text ? plural(this.found.length, "match").replace("matchs", "matches") : "");
    setAttr(this.parts.found, "class", text && this.found.length === 0 ? "found none" : "found");
    this.onFilter(text);
  }

  filterKey(event) {
    if (event.key === "Enter" && this.found.length > 0) {
      const next = (this.found.indexOf(this.graph.selected) + 1) % this.found.length;
      this.onChoose(this.found[next]);
    } else if (event.key === "Escape" && this.parts.filter.value) {
      event.stopPropagation();
      this.parts.filter.value = "";
      this.filter();
    }
  }
}
