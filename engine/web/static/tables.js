// Tables whose rows and cells change in place, sorted by any column.

import { Bar } from "./charts.js";
import { Keyed, el, setAttr, setClass, setShown, setText } from "./dom.js";
import { heat, percent } from "./format.js";

/**
 * A table. Each column: {title, hint, value(row), text(row), kind, cell}.
 * kind: "text" (left), "number" (right), "share" (a bar and a percentage), "user" (a text of a user, clipped).
 * value(row) is what the column sorts by. cell(row) returns {element, update(row)} for a cell of its own.
 */
export class Table {
  constructor({ label, columns, keyOf, onRow = null, sortBy = null, most = Infinity }) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.onRow = onRow;
    this.sorted = { column: sortBy, isDown: true };
    this.most = most;
    this.rows = [];
    this.body = el("tbody");
    this.heads = columns.map((column, index) => this.head(column, index));
    const table = el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.more = el("p", { class: "more" });
    this.element = el("div", { class: "table-box", role: "region", "aria-label": label, tabindex: 0 }, table, this.more);
    this.keyed = new Keyed(this.body, (row) => this.row(row));
    this.seen = new IntersectionObserver((entries) => this.scrolled(entries), { root: this.element, rootMargin: "80px" });
    this.parts = new WeakMap(); // element of a row -> the row
    setShown(this.more, false);
  }

  head(column, index) {
    const isSorted = column.value !== undefined;
    const inside = isSorted
      ? el("button", { type: "button", class: "sort", text: column.title, onclick: () => this.sort(index) })
      : el("span", { text: column.title });
    return el("th", { scope: "col", class: column.kind ?? "text", title: column.hint ?? null }, inside);
  }

  /** Sort by a column: the largest first, then the smallest first, then in the order of the sample. */
  sort(index) {
    const isText = !["number", "share"].includes(this.columns[index].kind);
    const { column, isDown } = this.sorted;
    if (column !== index) this.sorted = { column: index, isDown: !isText };
    else if (isDown !== isText) this.sorted = { column: index, isDown: isText };
    else this.sorted = { column: null, isDown: true };
    this.show(this.rows);
  }

  /** Show rows. Hidden ones stay out of the page. */
  show(rows) {
    this.rows = rows;
    const { column, isDown } = this.sorted;
    this.heads.forEach((head, index) => {
      setAttr(head, "aria-sort", index === column ? (isDown ? "descending" : "ascending") : null);
    });
    let ordered = rows;
    if (column !== null) {
      const { value } = this.columns[column];
      ordered = [...rows].sort((a, b) => (isDown ? -1 : 1) * compare(value(a), value(b)));
    }
    this.keyed.show(ordered.slice(0, this.most), this.keyOf);
    setShown(this.more, rows.length > this.most);
    if (rows.length > this.most) setText(this.more, `and ${rows.length - this.most} more`);
  }

  row(first) {
    const cells = this.columns.map((column) => (column.cell ? ownCell(column, first) : cellOf(column)));
    const element = el("tr", {}, ...cells.map((cell) => cell.element));
    const write = (row) => cells.forEach((cell) => cell.update(row));
    const part = { isSeen: true, now: first, write };
    this.parts.set(element, part);
    this.seen.observe(element);
    if (this.onRow) {
      setClass(element, "chosen-by-click", true);
      element.addEventListener("click", () => this.onRow(part.now));
    }
    return {
      element,
      update: (row) => {
        part.now = row;
        if (part.isSeen) write(row);
      },
      forget: () => this.seen.unobserve(element),
    };
  }

  /** Write the rows that have come into view. The others wait: a long table costs what is seen of it. */
  scrolled(entries) {
    for (const { target, isIntersecting } of entries) {
      const part = this.parts.get(target);
      part.isSeen = isIntersecting;
      if (isIntersecting) part.write(part.now);
    }
  }

  /** Mark the row with this key. */
  select(key) {
    if (key === this.selected) return;
    for (const each of [this.selected, key]) {
      const part = this.keyed.parts.get(each);
      if (part) setClass(part.element, "selected", each === key);
    }
    this.selected = key;
  }
}

function compare(a, b) {
  if (typeof a === "string" || typeof b === "string") return String(a ?? "").localeCompare(String(b ?? ""), undefined, { numeric: true });
  return (a ?? -Infinity) - (b ?? -Infinity) || 0;
}

function ownCell(column, row) {
  const { element, update } = column.cell(row);
  const place = el("td", { class: column.kind ?? "text" }, element);
  return { element: place, update };
}

function cellOf(column) {
  if (column.kind === "share") return shareCell(column);
  const element = el("td", { class: column.kind ?? "text" });
  const isClipped = (column.kind ?? "").split(" ").includes("user");
  const inside = isClipped ? el("span", { class: "clip user" }) : element;
  if (isClipped) element.append(inside);
  return {
    element,
    update: (row) => {
      const text = column.text(row);
      setText(inside, text);
      if (isClipped) setAttr(inside, "title", column.whole ? column.whole(row) : text);
      if (column.level) setAttr(element, "data-level", column.level(row));
    },
  };
}

function shareCell(column) {
  const meter = new Meter();
  const inner = column.inner ?? (() => null);
  const element = el("td", { class: "share" }, meter.element);
  return { element, update: (row) => meter.show(column.value(row), inner(row)) };
}

/** A bar with its percentage. */
export class Meter {
  constructor() {
    this.bar = new Bar();
    this.text = el("span", { class: "meter-text" });
    this.element = el("span", { class: "meter" }, this.bar.element, this.text);
  }

  show(share, inner = null) {
    setText(this.text, percent(share));
    setAttr(this.element, "data-heat", heat(share));
    this.bar.show(share, inner);
  }
}

/** Return a list of terms and values that change in place: show([["Step", "idle", level, isWide], …]). */
export function factList() {
  const element = el("dl", { class: "facts" });
  const keyed = new Keyed(element, () => {
    const term = el("dt");
    const value = el("dd", { class: "user" });
    return {
      element: el("div", {}, term, value),
      update: ([title, text, level, isWide]) => {
        setClass(term.parentElement, "wide", isWide);
        setText(term, title);
        setText(value, text);
        setAttr(value, "title", text);
        setAttr(value, "data-level", level ?? null);
      },
    };
  });
  return { element, show: (facts) => keyed.show(facts.filter((fact) => fact !== null), ([title]) => title) };
}
