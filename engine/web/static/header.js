// The head of the page: what limits the run now, and the totals with their last minute.

import { Minute, Sparkline } from "./charts.js";
import { byId, el, setAttr, setClass, setShown, setText } from "./dom.js";
import { count, heat, ms, percent, plural, rate, secs, visible } from "./format.js";

const TILES = [
  { name: "loop_busy", title: "Event loop", hint: "Share of the time in which the event loop is busy", format: percent, most: 1 },
  { name: "acked_rate", title: "Acked", hint: "Trees acked per second", format: rate },
  { name: "failed_rate", title: "Failed", hint: "Trees failed per second", format: rate },
  { name: "open_trees", title: "Open trees", hint: "Trees that are neither acked nor failed", format: count },
  { name: "p50_ms", second: "p99_ms", title: "Complete latency", hint: "Time from the emit of a tree to its ack: p50, and p99 dashed", format: ms },
];

/** Shows topology, state, sentence and totals. */
export class Header {
  constructor() {
    this.tiles = TILES.map((each) => new Tile(each));
    byId("tiles").append(...this.tiles.map((tile) => tile.element));
  }

  /** Take the last minute that the server remembers. */
  replace(samples) {
    for (const tile of this.tiles) tile.replace(samples);
  }

  show(sample) {
    const { bottleneck, total } = sample;
    setText(byId("topology"), sample.topology);
    setAttr(byId("topology"), "title", sample.topology);
    setText(byId("state"), sample.state);
    setAttr(byId("state"), "data-state", sample.state);
    setText(byId("uptime"), `up ${secs(sample.uptime_secs)}`);
    setText(byId("limit-text"), bottleneck?.text ?? "");
    setAttr(byId("limit"), "data-kind", bottleneck?.kind ?? "starting");
    for (const tile of this.tiles) tile.push(total);
    const [, acked, failed] = this.tiles;
    acked.note(`${count(total.acked)} in all`);
    failed.note([`${count(total.failed)} in all`, total.errors > 0 ? plural(total.errors, "error") : ""].filter(Boolean).join(" · "));
    failed.mark(total.failed_rate > 0 ? "bad" : null);
    setClass(failed.element, "failing", failed.minutes[0].most > 0);
    this.tiles[0].mark(heat(total.loop_busy) === "hot" ? "bad" : null);
    const title = visible(`${sample.topology} · ${sample.state}`);
    if (document.title !== title) document.title = title;
  }
}

class Tile {
  constructor(each) {
    this.each = each;
    this.minutes = each.second ? [new Minute(), new Minute()] : [new Minute()];
    this.curve = new Sparkline({ label: each.title, format: each.format, most: each.most ?? null });
    this.value = el("span", { class: "tile-value" });
    this.below = el("span", { class: "tile-note" });
    this.element = el(
      "div",
      { class: "tile", title: each.hint, "data-id": each.name },
      el("div", { class: "tile-head" }, el("span", { class: "tile-title", text: each.title }), this.below),
      this.value,
      this.curve.element,
    );
  }

  names() {
    return this.each.second ? [this.each.name, this.each.second] : [this.each.name];
  }

  replace(samples) {
    this.names().forEach((name, index) => this.minutes[index].replace(samples.map((sample) => sample[name])));
    this.curve.show(...this.minutes);
  }

  push(total) {
    const values = this.names().map((name) => total[name]);
    values.forEach((value, index) => this.minutes[index].push(value));
    setText(this.value, values.map(this.each.format).join(" / "));
    if (this.each.second) this.note("p50 / p99");
    this.curve.show(...this.minutes);
  }

  note(text) {
    setText(this.below, text);
  }

  mark(level) {
    setAttr(this.value, "data-level", level);
  }
}

/** Show the state of the connection: a banner, and grey figures while the connection is lost. */
export function showConnection({ state, silentSecs }, sample) {
  const banner = byId("banner");
  const isLost = state === "lost";
  document.body.classList.toggle("stale", isLost);
  document.body.classList.toggle("ended", state === "ended");
  setAttr(banner, "data-state", state);
  setAttr(banner, "data-level", sample?.state === "failed" ? "failed" : null);
  setShown(banner, isLost || state === "ended");
  if (isLost) {
    setText(byId("banner-text"), "Connection lost. Connecting again…");
    setText(byId("banner-age"), sample ? `The figures are ${silentSecs} s old.` : "No figures have come yet.");
  } else if (state === "ended") {
    setText(byId("banner-age"), "");
    setText(byId("banner-text"), `The run has ended: ${sample?.state ?? "ended"}, after ${secs(sample?.uptime_secs)}. These are its last figures.`);
  }
}
