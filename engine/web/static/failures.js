// Failed trees, errors with their tracebacks, inputs that still owe an ack, and traces of messages.

import { Keyed, el, setAttr, setShown, setText } from "./dom.js";
import { clock, count, plural, secs } from "./format.js";
import { Table } from "./tables.js";

const place = (component, task) => (task === null || task === undefined ? (component ?? "–") : `${component} [${task}]`);

const REASONS =
  "failed: a bolt failed the input. error: its code raised. timeout: no ack came in time. forgotten: a bolt dropped the input without ack or " +
  "fail. rollback: a checkpoint was rolled back. task_died: the task was replaced";
const COUNTED = "A failed input fails its tree. The bolt counts the input, and the spout counts the tree";

const MOST_OF_ERROR = 200;

/** A card that is shown only while it has something to show. */
export class Card {
  constructor(host, title) {
    this.count = el("span", { class: "tag" });
    this.element = el("section", { class: "card" }, el("div", { class: "card-head" }, el("h2", { text: title }), this.count));
    host.append(this.element);
    setShown(this.element, false);
  }

  add(...elements) {
    this.element.append(...elements);
    return this;
  }

  show(isShown, tag = "") {
    setShown(this.element, isShown);
    if (isShown) setText(this.count, tag);
  }
}

/** Failed trees by reason and component, and the newest ones. */
export class Failures {
  constructor(host) {
    this.card = new Card(host, "Failures");
    this.reasons = new Table({
      label: "Failures by reason and component",
      keyOf: (row) => row.key,
      sortBy: 3,
      most: 12,
      columns: [
        { title: "Reason", hint: REASONS, kind: "user", value: (row) => row.reason, text: (row) => row.reason },
        { title: "Counted", hint: COUNTED, value: (row) => row.counted, text: (row) => row.counted },
        { title: "Component", kind: "user", value: (row) => row.component, text: (row) => row.component },
        { title: "Failed", kind: "number", value: (row) => row.number, text: (row) => count(row.number) },
      ],
    });
    this.newest = new Table({
      label: "Newest failed trees",
      keyOf: (row) => row.key,
      columns: [
        { title: "Time", kind: "time", text: (row) => clock(row.time) },
        { title: "Message id", kind: "user", text: (row) => row.message_id },
        { title: "Spout", kind: "user", text: (row) => place(row.component, row.task) },
        { title: "Reason", hint: REASONS, kind: "user", text: (row) => row.reason },
        { title: "Failed by", kind: "user", text: (row) => place(row.failed_component, row.failed_task) },
        { title: "Error", kind: "user wide", text: (row) => row.error ?? "–" },
      ],
    });
    this.newestTitle = el("h3", { text: "Newest first" });
    this.letters = el("p", { class: "note user letters" });
    this.card.add(this.letters, this.reasons.element, this.newestTitle, this.newest.element);
  }

  show(sample) {
    const reasons = [];
    for (const component of sample.components) {
      for (const [reason, number] of Object.entries(component.failures ?? {})) {
        const counted = component.kind === "spout" ? "trees" : "inputs";
        if (number > 0) reasons.push({ key: JSON.stringify([component.id, reason]), component: component.id, reason, counted, number });
      }
    }
    const newest = uniquely(sample.failures ?? [], (row) => [row.time, row.component, row.task, row.message_id]);
    const letters = sample.dead_letters?.stored ?? 0;
    setShown(this.letters, letters > 0);
    setText(this.letters, letters > 0 ? lettersText(sample.dead_letters) : "");
    this.card.show(reasons.length > 0 || newest.length > 0 || letters > 0, `${count(sample.total?.failed ?? 0)} failed trees`);
    this.reasons.show(reasons);
    setShown(this.reasons.element, reasons.length > 0);
    for (const element of [this.newest.element, this.newestTitle]) setShown(element, newest.length > 0);
    this.newest.show(newest);
  }
}

/** Return the number of dead letters, those of earlier runs included, and the newest one. */
function lettersText(now) {
  const error = (now.last_error ?? "").split("\n")[0].slice(0, MOST_OF_ERROR);
  const last = now.last_component_id === null ? "" : `, the newest one of ${now.last_component_id}: ${error}`;
  return `${plural(now.stored, "dead letter")} in the state provider${last}`;
}

/** Return rows with a key of their own; two equal ones get a number. */
function uniquely(rows, partsOf) {
  const seen = new Map();
  return rows.map((row) => {
    const text = JSON.stringify(partsOf(row));
    const number = seen.get(text) ?? 0;
    seen.set(text, number + 1);
    return { ...row, key: `${text} ${number}` };
  });
}

/** The latest errors. Each opens to its input, its traceback, and the engine's next step. */
export class Errors {
  constructor(host) {
    this.card = new Card(host, "Errors");
    this.list = el("div", { class: "errors" });
    this.keyed = new Keyed(this.list, () => errorEntry());
    this.card.add(this.list);
  }

  show(sample) {
    const errors = uniquely(sample.errors ?? [], (row) => [row.time, row.component, row.task, row.error]);
    const isHeld = this.list.matches(":hover"); // new rows would move the row that a click is about to hit
    const shown = isHeld ? errors.filter((row) => this.keyed.parts.has(row.key)) : errors;
    const added = errors.length - shown.length;
    const tag = `${count(sample.total?.errors ?? errors.length)} in this run`;
    this.card.show(errors.length > 0, added > 0 ? `${tag} · ${count(added)} new, shown when the pointer leaves` : tag);
    this.keyed.show(shown, (row) => row.key);
  }
}

function errorEntry() {
  const [time, where] = [el("span", { class: "time" }), el("span", { class: "where user" })];
  const [error, input, trace, next] = [el("span", { class: "error user" }), el("pre"), el("pre", { class: "traceback" }), el("p")];
  const summary = el("summary", {}, time, where, error);
  const inputPart = el("div", {}, el("h3", { text: "Input" }), input);
  const tracePart = el("div", {}, el("h3", { text: "Traceback" }), trace);
  const nextPart = el("div", {}, el("h3", { text: "Next" }), next);
  const element = el("details", { class: "entry" }, summary, inputPart, tracePart, nextPart);
  return {
    element,
    update: (row) => {
      setText(time, clock(row.time));
      setText(where, place(row.component, row.task));
      setText(error, row.error);
      setAttr(error, "title", row.error);
      for (const [part, inside, text] of [[inputPart, input, row.tuple], [tracePart, trace, row.traceback], [nextPart, next, row.next_step]]) {
        setShown(part, Boolean(text));
        setText(inside, text || "");
      }
    },
  };
}

/** Inputs that a task has taken and neither acked nor failed yet, the oldest first. */
export class Owed {
  constructor(host) {
    this.card = new Card(host, "Who still owes an ack");
    this.table = new Table({
      label: "Inputs without an ack, oldest first",
      keyOf: (row) => row.key,
      columns: [
        { title: "Age", kind: "number", text: (row) => secs(row.age_secs), level: (row) => (row.age_secs >= 10 ? "bad" : null) },
        { title: "Task", kind: "user", text: (row) => place(row.component, row.task) },
        { title: "Input", kind: "user wide", text: (row) => row.tuple },
      ],
    });
    this.card.add(this.table.element);
  }

  show(sample) {
    const owed = uniquely(sample.owed ?? [], (row) => [row.component, row.task, row.tuple]);
    this.card.show(owed.length > 0, "oldest first");
    this.table.show(owed);
  }
}

/** Traces of messages. The form asks for a spout and a message id; onTrace(component, messageId) sends them. */
export class Traces {
  constructor(host, onTrace) {
    this.card = new Card(host, "Trace a message");
    this.spout = el("select", { id: "trace-spout", name: "spout" });
    this.id = el("input", { id: "trace-id", name: "message", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "message id" });
    this.options = new Keyed(this.spout, (id) => ({ element: el("option", { value: id, text: id }), update: () => {} }));
    const form = el(
      "form",
      { class: "row" },
      el("label", { for: "trace-spout", text: "Spout" }),
      this.spout,
      el("label", { for: "trace-id", text: "Message id" }),
      this.id,
      el("button", { type: "submit", text: "Trace" }),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.id.value.trim()) onTrace(this.spout.value, this.id.value.trim());
      else this.id.focus();
    });
    this.list = el("div", { class: "traces" });
    this.keyed = new Keyed(this.list, () => traceEntry());
    this.hint = el("p", { class: "hint", text: "Follows a message that is open, or the next one with this id within 60 s, and shows the path of its tree. A past failure stands under Failures." });
    this.card.add(form, this.hint, this.list);
  }

  show(sample) {
    const spouts = sample.components.filter((component) => component.kind === "spout" && !component.system);
    const traces = uniquely(sample.traces ?? [], (row) => [row.component, row.message_id]);
    this.card.show(spouts.length > 0 || traces.length > 0, traces.length > 0 ? plural(traces.length, "trace") : "");
    this.options.show(spouts.map((spout) => spout.id), (id) => id);
    setShown(this.hint, traces.length === 0);
    this.keyed.show(traces, (row) => row.key);
  }
}

function traceEntry() {
  const [state, where, path] = [el("span", { class: "pill" }), el("span", { class: "where user" }), el("pre")];
  return {
    element: el("div", { class: "trace" }, el("p", {}, state, where), path),
    update: (row) => {
      setText(state, row.state);
      setAttr(state, "data-state", row.state);
      setText(where, `${row.message_id} of ${row.component}`);
      setText(path, row.text ?? "");
      setShown(path, Boolean(row.text));
    },
  };
}
