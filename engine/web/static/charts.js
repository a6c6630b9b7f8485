// Small charts in SVG: a curve of the last minute, and lanes of flow-control windows.

import { el, setAttr, setStyle, setText, svg } from "./dom.js";
import { NONE } from "./format.js";

export const MINUTE = 60; // samples of a curve

/** Values of the last minute, oldest first. Unknown values are null. */
export class Minute {
  constructor() {
    this.values = [];
  }

  push(value) {
    this.values.push(typeof value === "number" ? value : null);
    if (this.values.length > MINUTE) this.values.shift();
  }

  replace(values) {
    this.values = values.slice(-MINUTE).map((value) => (typeof value === "number" ? value : null));
  }

  get most() {
    return this.values.reduce((most, value) => Math.max(most, value ?? 0), 0);
  }
}

/** Return the path of a line through values, with a gap at each null. The newest value is at the right edge. */
export function linePath(values, width, height, most) {
  const step = width / (MINUTE - 1);
  const first = MINUTE - values.length;
  const top = most > 0 ? most : 1;
  let path = "";
  let isDown = false;
  values.forEach((value, index) => {
    if (value === null) {
      isDown = false;
      return;
    }
    const x = ((first + index) * step).toFixed(1);
    const y = (height - Math.min(value / top, 1) * height).toFixed(1);
    path += `${isDown ? "L" : "M"}${x} ${y}`;
    isDown = true;
  });
  return path;
}

/** Return the path of the area below a line. A null is drawn as zero. */
export function areaPath(values, width, height, most) {
  if (values.length === 0) return "";
  const step = width / (MINUTE - 1);
  const x = (index) => ((MINUTE - values.length + index) * step).toFixed(1);
  const line = linePath(
    values.map((value) => value ?? 0),
    width,
    height,
    most,
  );
  return `${line}L${x(values.length - 1)} ${height}L${x(0)} ${height}Z`;
}

/** A curve of the last minute. The pointer shows the value at its place. */
export class Sparkline {
  /** format(value) returns a text. most: top of the scale, or null for the largest value. */
  constructor({ label, format, most = null, height = 34 }) {
    this.label = label;
    this.format = format;
    this.fixed = most;
    this.height = height;
    this.lines = [];
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.second = svg("path", { class: "line second" });
    this.cursor = svg("line", { class: "cursor", y1: 0, y2: height, hidden: true });
    this.picture = svg(
      "svg",
      { class: "spark", viewBox: `0 -1 240 ${height + 2}`, preserveAspectRatio: "none", role: "img" },
      this.area,
      this.line,
      this.second,
      this.cursor,
    );
    this.note = el("span", { class: "spark-note", "aria-hidden": "true" });
    this.element = el("div", { class: "spark-box" }, this.picture, this.note);
    this.element.addEventListener("pointermove", (event) => this.point(event));
    this.element.addEventListener("pointerleave", () => this.unpoint());
  }

  /** Draw one or two minutes of values. */
  show(...minutes) {
    this.lines = minutes;
    const most = this.fixed ?? Math.max(...minutes.map((minute) => minute.most));
    const paths = minutes.map((minute) => linePath(minute.values, 240, this.height, most));
    setAttr(this.area, "d", areaPath(minutes[0].values, 240, this.height, most));
    setAttr(this.line, "d", paths[0]);
    setAttr(this.second, "d", paths[1] ?? "");
    const largest = most > 0 ? this.format(most) : this.format(0);
    setAttr(this.picture, "aria-label", `${this.label}, last minute, at most ${largest}`);
  }

  point(event) {
    const box = this.element.getBoundingClientRect();
    const place = Math.round(((event.clientX - box.left) / box.width) * (MINUTE - 1));
    const texts = this.lines.map((minute) => {
      const index = place - (MINUTE - minute.values.length);
      return index in minute.values ? this.format(minute.values[index]) : NONE;
    });
    setText(this.note, `${texts.join(" / ")} · ${MINUTE - 1 - place}\u202fs ago`);
    const x = ((place * 240) / (MINUTE - 1)).toFixed(1);
    setAttr(this.cursor, "x1", x);
    setAttr(this.cursor, "x2", x);
    setAttr(this.cursor, "hidden", false);
  }

  unpoint() {
    setText(this.note, "");
    setAttr(this.cursor, "hidden", true);
  }
}

/** A bar for a share of 0 to 1, with a part of it in a stronger colour. */
export class Bar {
  constructor() {
    this.element = el("span", { class: "bar" });
  }

  show(share, part) {
    setStyle(this.element, "--share", barWidth(share));
    setStyle(this.element, "--part", barWidth(part));
  }
}

const barWidth = (share) => `${Math.round(Math.min(Math.max(share ?? 0, 0), 1) * 100)}%`;

const LANE_WIDTH = 236; // four units for each of 59 steps
const LANE_HEIGHT = 30;

/** One lane of the plot of flow control: the state as background, packs in flight as area, the window as line. */
export class FlowLane {
  constructor(label) {
    this.window = new Minute();
    this.inFlight = new Minute();
    this.states = [];
    this.label = label;
    this.slow = svg("path", { class: "lane-state", "data-state": "SLOW" });
    this.busy = svg("path", { class: "lane-state", "data-state": "BUSY" });
    this.area = svg("path", { class: "lane-flight" });
    this.line = svg("path", { class: "lane-window" });
    this.element = svg(
      "svg",
      { class: "lane", viewBox: `0 0 ${LANE_WIDTH} ${LANE_HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      ...[this.slow, this.busy, this.area, this.line],
    );
  }

  push(task) {
    this.window.push(task.window);
    this.inFlight.push(task.in_flight);
    this.states.push(task.state);
    if (this.states.length > MINUTE) this.states.shift();
  }

  get most() {
    return Math.max(this.window.most, this.inFlight.most);
  }

  /** Draw with the scale that all lanes share. */
  show(most) {
    setAttr(this.slow, "d", this.backgrounds("SLOW"));
    setAttr(this.busy, "d", this.backgrounds("BUSY"));
    setAttr(this.area, "d", areaPath(this.inFlight.values, LANE_WIDTH, LANE_HEIGHT, most * 1.1));
    setAttr(this.line, "d", linePath(this.window.values, LANE_WIDTH, LANE_HEIGHT, most * 1.1));
    setAttr(this.element, "aria-label", `${this.label}: window and packs in flight of the last minute, state ${this.states.at(-1)}`);
  }

  backgrounds(state) {
    const first = MINUTE - 1 - this.states.length;
    const strip = (x) => `M${x} 0h4v${LANE_HEIGHT}h-4z`;
    return this.states.map((each, index) => (each === state ? strip(Math.max((first + index) * 4, 0)) : "")).join("");
  }
}
