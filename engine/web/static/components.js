// The table of components, and the details of the selected one with its tasks.

import { el, setAttr, setShown, setText } from "./dom.js";
import { count, ms, percent, plural, rate } from "./format.js";
import { Table, factList } from "./tables.js";

const isSpout = (component) => component.kind === "spout";
const latency = (component) => (isSpout(component) ? component.p50_ms : component.execute_ms);

/** Return a column of counts that is shown in red unless it is zero. */
function badCount(title, name, hint) {
  return { title, hint, kind: "number", value: (row) => row[name], text: (row) => count(row[name]), level: (row) => (row[name] > 0 ? "bad" : null) };
}

const rateColumn = (title, name, hint) => ({ title, hint, kind: "number", value: (row) => row[name], text: (row) => rate(row[name]) });

const CODE = {
  title: "Code",
  kind: "share",
  hint: "Share of the time in its code, of the calls that may run at once. Of a component: the busiest task",
  value: (row) => row.capacity,
};
const LOOP = {
  title: "Loop",
  kind: "share",
  hint: "Share of the time in which its code holds the event loop, that all components share",
  value: (row) => row.loop_share,
  inner: (row) => row.loop_share,
};

const openText = (row) => (row.max_pending === null || row.max_pending === undefined ? count(row.pending) : `${count(row.pending)} of ${count(row.max_pending)}`);

const WAITING = {
  title: "Waiting",
  kind: "number",
  hint: "Tuples in the mailboxes. Of a spout: open trees",
  value: (row) => row.waiting || row.pending,
  text: (row) => (row.pending !== null && row.pending !== undefined ? `${openText(row)} open` : count(row.waiting)),
  level: (row) => (row.fill >= 0.5 ? "bad" : null),
};

/** All components, one row each. */
export class ComponentTable {
  constructor(onSelect) {
    this.text = "";
    this.showsSystem = false;
    this.table = new Table({
      label: "Components",
      keyOf: (component) => component.id,
      onRow: (component) => onSelect(component.id),
      columns: [
        { title: "Component", value: (row) => row.id, cell: (row) => nameCell(row, onSelect) },
        { title: "Kind", value: (row) => row.kind, text: (row) => row.kind },
        { title: "Tasks", kind: "number", value: (row) => row.tasks, text: (row) => count(row.tasks) },
        rateColumn("In", "in_rate", "Inputs taken per second"),
        rateColumn("Out", "out_rate", "Tuples emitted per second"),
        WAITING,
        CODE,
        LOOP,
        {
          title: "Latency",
          kind: "number",
          hint: "Mean time of execute. Of a spout: median complete latency",
          value: latency,
          text: (row) => ms(latency(row)),
        },
        { title: "Process", kind: "number", hint: "Mean time from execute to the ack", value: (row) => row.process_ms, text: (row) => ms(row.process_ms) },
        { title: "Acked", kind: "number", value: (row) => row.acked, text: (row) => count(row.acked) },
        badCount("Failed", "failed", "Failed inputs. Of a spout: failed trees"),
        { title: "Retries", kind: "number", hint: "Calls that raised and ran again", value: (row) => row.retries, text: (row) => count(row.retries) },
        {
          title: "Left out",
          kind: "number",
          hint: "Inputs that went to its stream “failed”. Of a spout: failed rows that it has given up",
          value: (row) => row.diverted + row.given_up,
          text: (row) => count(row.diverted + row.given_up),
          level: (row) => (row.given_up > 0 ? "bad" : null),
        },
        badCount("Errors", "errors", "Errors that its code raised or reported"),
        badCount("Restarts", "restarts", "Restarts of its tasks"),
        { title: "Status", kind: "user", value: (row) => row.status, text: (row) => row.status || "–" },
      ],
    });
    this.element = this.table.element;
  }

  show(components) {
    this.components = components;
    const isShown = (each) => (this.showsSystem || !each.system) && each.id.toLowerCase().includes(this.text);
    this.table.show(components.filter(isShown));
  }

  /** Show only the components that contain a text. */
  filter(text, showsSystem) {
    this.text = text;
    this.showsSystem = showsSystem;
    if (this.components) this.show(this.components);
  }

  select(id) {
    this.table.select(id);
  }
}

function nameCell(component, onSelect) {
  const element = el("button", { type: "button", class: "clip name user", "data-kind": component.kind });
  element.addEventListener("click", (event) => {
    event.stopPropagation();
    onSelect(component.id);
  });
  const update = (row) => {
    setText(element, row.id);
    setAttr(element, "title", row.id);
  };
  update(component);
  return { element, update };
}

/** The selected component: its figures, tasks and neighbours. onRestart(task, component) asks before a restart. */
export class ComponentDetails {
  constructor(host, onSelect, onRestart) {
    this.title = el("h2", { class: "user", id: "details-title" });
    this.kind = el("span", { class: "tag" });
    this.note = el("p", { class: "note" });
    this.facts = factList();
    this.onRestart = onRestart;
    this.tables = new Map([true, false].map((spout) => [spout, this.newTable(spout)]));
    this.neighbours = neighbourTable(onSelect);
    const tables = [...this.tables.values(), this.neighbours].map((table) => table.element);
    host.append(el("div", { class: "card-head" }, this.title, this.kind), this.note, this.facts.element, ...tables);
  }

  newTable(ofSpout) {
    const wait = ofSpout
      ? { title: "Open", kind: "number", value: (row) => row.pending, text: (row) => count(row.pending) }
      : { title: "Waiting", kind: "number", value: (row) => row.waiting, text: (row) => count(row.waiting) };
    return new Table({
      label: "Tasks",
      keyOf: (task) => task.task,
      columns: [
        { title: "Task", kind: "number", value: (row) => row.task, text: (row) => String(row.task) },
        ofSpout ? rateColumn("Out", "out_rate") : rateColumn("In", "in_rate"),
        wait,
        CODE,
        badCount("Failed", "failed"),
        { title: "", cell: (row) => this.restartCell(row) },
        badCount("Errors", "errors"),
        LOOP,
        { title: "Status", value: (row) => row.status, text: (row) => row.status || "–" },
        { title: "Acked", kind: "number", value: (row) => row.acked, text: (row) => count(row.acked) },
        badCount("Restarts", "restarts"),
        ...(ofSpout ? [] : [rateColumn("Out", "out_rate")]),
      ],
    });
  }

  restartCell(task) {
    let now = task;
    const element = el("button", { type: "button", class: "small", text: "↻", title: `Restart task ${task.task}`, "aria-label": `Restart task ${task.task}` });
    element.addEventListener("click", () => this.onRestart(now.task, this.id));
    const update = (row) => {
      now = row;
    };
    return { element, update };
  }

  /** id: the component to show, or undefined. why: a text that says why it is shown. */
  show(id, why, sample) {
    const component = sample.components.find((each) => each.id === id);
    this.id = id;
    setText(this.title, component ? component.id : "No component");
    setAttr(this.title, "title", component ? component.id : null);
    setText(this.kind, component ? `${component.kind}, ${plural(component.tasks, "task")}` : "");
    setText(this.note, why);
    setShown(this.note, why !== "");
    this.facts.show(component ? [...factsOf(component), ...guaranteeOf(id, sample)] : []);
    for (const [ofSpout, table] of this.tables) {
      const isShown = component !== undefined && ofSpout === isSpout(component);
      setShown(table.element, isShown);
      if (isShown) table.show(component.task_rows);
    }
    const neighbours = neighboursOf(id, sample);
    setShown(this.neighbours.element, neighbours.length > 0);
    this.neighbours.show(neighbours);
  }
}

/** Return how often a row of a spout counts, or the part of a bolt in checkpoints. */
function guaranteeOf(id, sample) {
  const known = sample.checkpoint?.guarantees;
  const source = known?.sources.find((each) => each.component_id === id);
  if (source) return [["A row counts", `${source.guarantee}: ${source.why}`, null, true]];
  const facts = known?.parts[id] ? [["In checkpoints", known.parts[id]]] : [];
  return known?.may_repeat.includes(id) ? [...facts, ["Effects outside", "may happen again after a failure", null, true]] : facts;
}

/** Return the streams from and to a component. */
function neighboursOf(id, sample) {
  const own = new Set(sample.components.filter((each) => !each.system).map((each) => each.id));
  const row = (side, other, edge) => ({ key: JSON.stringify([side, other, edge.stream]), side, id: other, kind: "", stream: edge.stream, rate: edge.rate });
  const inputs = sample.edges.filter((edge) => edge.target === id && own.has(edge.source)).map((edge) => row("from", edge.source, edge));
  const outputs = sample.edges.filter((edge) => edge.source === id && own.has(edge.target)).map((edge) => row("to", edge.target, edge));
  return [...inputs, ...outputs];
}

function neighbourTable(onSelect) {
  return new Table({
    label: "Inputs and outputs",
    keyOf: (row) => row.key,
    columns: [
      { title: "", text: (row) => row.side },
      { title: "Component", value: (row) => row.id, cell: (row) => nameCell(row, onSelect) },
      { title: "Stream", kind: "user", text: (row) => row.stream },
      rateColumn("Rate", "rate"),
    ],
  });
}

function factsOf(component) {
  const reasons = Object.entries(component.failures ?? {}).map(([reason, number]) => `${reason} ${count(number)}`);
  const code = ["Busiest task", percent(component.capacity), component.capacity >= 0.8 ? "bad" : null];
  const loop = ["Holds the loop", percent(component.loop_share), component.loop_share >= 0.5 ? "bad" : null];
  const bad = (number) => (number > 0 ? "bad" : null);
  const shared = [
    component.slots > component.tasks ? ["Calls at once", count(component.slots)] : null,
    ["Failed", count(component.failed), bad(component.failed)],
    component.retries > 0 ? ["Retries", count(component.retries)] : null,
    component.diverted > 0 ? ["Diverted", count(component.diverted)] : null,
    component.given_up > 0 ? ["Given up", count(component.given_up), "bad"] : null,
    component.errors > 0 ? ["Errors", count(component.errors), "bad"] : null,
    component.restarts > 0 ? ["Restarts", count(component.restarts), "bad"] : null,
    reasons.length > 0 ? ["Failed by reason", reasons.join(", "), null, true] : null,
  ];
  if (isSpout(component)) {
    return [
      ["Emits", rate(component.out_rate)],
      ["Acked", rate(component.acked_rate)],
      ["Open trees", openText(component)],
      ["Complete p50", ms(component.p50_ms)],
      ["Complete p99", ms(component.p99_ms)],
      code,
      loop,
      ...shared,
    ];
  }
  const fill = typeof component.fill === "number" ? ` (${percent(component.fill)})` : "";
  return [
    ["Takes", rate(component.in_rate)],
    ["Emits", rate(component.out_rate)],
    ["Waiting", `${count(component.waiting)}${fill}`, component.fill >= 0.5 ? "bad" : null],
    ["Execute", ms(component.execute_ms)],
    ["To the ack", ms(component.process_ms)],
    code,
    loop,
    ...shared,
  ];
}
