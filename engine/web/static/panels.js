// Panels of the features: checkpoints, transactions, flow control, Kafka, and the user's own metrics. Each shows only while it has data.

import { FlowLane, Minute, Sparkline } from "./charts.js";
import { Keyed, el, setAttr, setShown, setText } from "./dom.js";
import { Card } from "./failures.js";
import { bytes, count, figure, grouped, ms, plural, rate, secs, short } from "./format.js";
import { Table, factList } from "./tables.js";

const MOST_LANES = 32;
const LATE_SECS = 10; // a step of a checkpoint that takes longer is marked

/** The checkpoints of stateful bolts. */
export class Checkpoint {
  constructor(host) {
    this.card = new Card(host, "Checkpoint");
    this.facts = factList();
    this.trouble = el("p", { class: "trouble user", role: "alert" });
    this.waits = el("div", { class: "waits" });
    this.keyed = textList(this.waits, "Waits for");
    this.sources = el("div", { class: "waits sources" });
    this.exact = textList(this.sources, "How often a row counts");
    this.card.add(this.trouble, this.facts.element, this.waits, this.sources);
  }

  show(sample) {
    const now = sample.checkpoint;
    this.card.show(Boolean(now), now ? `txid ${grouped(now.txid)}` : "");
    if (!now) return;
    const isLate = now.step !== "idle" && now.step_secs >= LATE_SECS;
    this.facts.show([
      ["Step", now.step, isLate ? "bad" : null],
      ["For", secs(now.step_secs), isLate ? "bad" : null],
      ["Since commit", secs(now.since_commit_secs)],
      ["Last took", ms(now.last_ms)],
      ["Longest hold", ms(now.last_alignment_ms)],
      ["Keys", count(now.last_keys)],
      ["Size", bytes(now.last_bytes)],
      ["Commits", count(now.committed)],
      ["Recoveries", count(now.recoveries), now.recoveries > 0 ? "bad" : null],
    ]);
    setShown(this.trouble, Boolean(now.held));
    setText(this.trouble, now.held ? `The sources wait, because ${now.held}` + (now.cause ? `: ${now.cause}` : "") : "");
    const waits = now.waits_for ?? [];
    setShown(this.waits, waits.length > 0);
    this.keyed.show(waits.slice(0, 12).map((text, index) => [index, text]), ([index]) => index);
    const known = guaranteeTexts(now.guarantees);
    setShown(this.sources, known.length > 0);
    this.exact.show(known.slice(0, 12).map((text, index) => [index, text]), ([index]) => index);
  }
}

/** Add a heading and a list to an element. Return the list, whose rows are [key, text]. */
function textList(host, title) {
  const list = el("ul");
  host.append(el("h3", { text: title }), list);
  return new Keyed(list, () => {
    const element = el("li", { class: "user" });
    return { element, update: ([, text]) => setText(element, text) };
  });
}

function guaranteeTexts(known) {
  if (!known) return [];
  const texts = known.sources.map((each) => `${each.component_id} ${each.guarantee}: ${each.why}`);
  if (known.may_repeat.length > 0) texts.push(`Effects outside may happen again after a failure: ${known.may_repeat.join(", ")}`);
  return texts;
}

/** Transactions: the last committed txid, and the open ones by phase. */
export class Transactions {
  constructor(host) {
    this.card = new Card(host, "Transactions");
    this.facts = factList();
    this.phases = el("div", { class: "phases" });
    this.keyed = new Keyed(this.phases, () => {
      const [name, txids] = [el("h3"), el("p", { class: "txids" })];
      return {
        element: el("div", {}, name, txids),
        update: ([phase, numbers]) => {
          setText(name, `${phase} (${numbers.length})`);
          setText(txids, numbers.slice(0, 24).map(grouped).join("  ") + (numbers.length > 24 ? " …" : ""));
        },
      };
    });
    this.card.add(this.facts.element, this.phases);
  }

  show(sample) {
    const now = sample.transactions;
    this.card.show(Boolean(now), now ? `committed ${grouped(now.committed_txid)}` : "");
    if (!now) return;
    this.facts.show([
      ["Commits", rate(now.committed_rate)],
      ["Open", count(now.open)],
      ["Failed", count(now.failed), now.failed > 0 ? "bad" : null],
    ]);
    const phases = Object.entries(now.phases ?? {}).filter(([, numbers]) => numbers.length > 0);
    this.keyed.show(phases, ([phase]) => phase);
  }
}

/** Flow control: one block for each spout task, one lane for each bolt task. */
export class Flow {
  constructor(host) {
    this.card = new Card(host, "Flow control");
    this.blocks = el("div", { class: "flows" });
    this.keyed = new Keyed(this.blocks, () => new FlowBlock());
    const legend = el("p", { class: "legend" });
    for (const [name, text] of [["window", "window"], ["flight", "packs in flight"], ["SLOW", "SLOW"], ["BUSY", "BUSY"]]) {
      legend.append(el("span", { class: "key", "data-state": name, text }));
    }
    this.card.add(this.blocks, legend);
  }

  show(sample) {
    const flows = sample.flow ?? [];
    this.card.show(flows.length > 0, "last minute");
    this.keyed.show(flows, (flow) => flow.task_id);
  }
}

class FlowBlock {
  constructor() {
    this.title = el("h3", { class: "user" });
    this.facts = factList();
    this.holds = el("p", { class: "note user" });
    this.lanes = el("div", { class: "lanes" });
    this.more = el("p", { class: "more" });
    this.keyed = new Keyed(this.lanes, (task) => new FlowRow(task));
    this.element = el("div", { class: "flow" }, this.title, this.facts.element, this.holds, this.lanes, this.more);
  }

  update(flow) {
    setText(this.title, `${flow.component_id} [${flow.task_id}]`);
    this.facts.show([
      ["Done", count(flow.done_records)],
      ["Pending", count(flow.pending_records)],
      ["Not sent", count(flow.buffered_records)],
      ["Since checkpoint", count(flow.records_since_checkpoint)],
      ["Position", flow.position ?? "none", null, true],
    ]);
    setText(this.holds, flow.holds ? `Sends nothing now: ${flow.holds}` : "");
    setShown(this.holds, Boolean(flow.holds));
    const tasks = flow.tasks.slice(0, MOST_LANES);
    this.keyed.show(tasks, (task) => task.task_id);
    const rows = [...this.keyed.parts.values()];
    const most = Math.max(1, ...rows.map((row) => row.lane.most));
    for (const row of rows) row.lane.show(most);
    setShown(this.more, flow.tasks.length > MOST_LANES);
    setText(this.more, `and ${flow.tasks.length - MOST_LANES} more tasks`);
  }
}

class FlowRow {
  constructor(task) {
    this.lane = new FlowLane(`Task ${task.task_id}`);
    this.state = el("span", { class: "pill" });
    this.figures = el("span", { class: "lane-figures" });
    this.element = el("div", { class: "lane-row" }, el("span", { class: "lane-name", text: `Task ${task.task_id}` }), this.lane.element);
    this.element.append(this.state, this.figures);
  }

  update(task) {
    this.lane.push(task);
    setText(this.state, task.state);
    setAttr(this.state, "data-state", task.state);
    setText(this.figures, `${count(task.in_flight)} of ${count(task.window)} · ${ms(task.service_ms)}`);
    setAttr(this.figures, "title", `${task.in_flight} packs in flight, window ${task.window}, ${ms(task.service_ms)} per record, p99 ${ms(task.service_p99_ms)}, ${task.resends} resends`);
  }
}

const KAFKA = [
  ["Committed", "committed"],
  ["Position", "position"],
  ["In flight", "pending"],
  ["Retries", "retries"],
  ["Dead", "dead_letters"],
];

/** Kafka: the lag of each partition, and the total with a curve. */
export class Kafka {
  constructor(host) {
    this.card = new Card(host, "Kafka lag");
    this.minute = new Minute();
    this.total = el("strong", { class: "figure" });
    this.curve = new Sparkline({ label: "Total lag", format: count });
    this.summary = el("div", { class: "curve-row" }, this.total, this.curve.element);
    this.table = new Table({
      label: "Lag of each partition",
      keyOf: (row) => JSON.stringify([row.component, row.topic, row.partition]),
      most: 200,
      columns: [
        { title: "Topic", kind: "user", value: (row) => row.topic, text: (row) => row.topic },
        { title: "Part.", hint: "Partition", kind: "number", value: (row) => Number(row.partition), text: (row) => String(row.partition) },
        { title: "Lag", kind: "number", value: (row) => row.lag, text: (row) => count(row.lag) },
        ...KAFKA.map(([title, name]) => ({ title, kind: "number", value: (row) => row[name], text: (row) => (row[name] === null ? "–" : grouped(row[name])) })),
        { title: "Note", text: (row) => (row.stopped ? "stopped" : row.paused ? "paused" : "") },
        { title: "Component", kind: "user", value: (row) => row.component, text: (row) => row.component },
      ],
    });
    this.card.add(this.summary, this.table.element);
  }

  show(sample) {
    const rows = sample.kafka ?? [];
    this.card.show(rows.length > 0, plural(rows.length, "partition"));
    if (rows.length === 0) return;
    const known = rows.filter((row) => typeof row.lag === "number");
    const total = known.length > 0 ? known.reduce((sum, row) => sum + row.lag, 0) : null;
    this.minute.push(total);
    setText(this.total, short(total));
    this.curve.show(this.minute);
    this.table.show(rows);
  }
}

/** The user's own metrics. */
export class Metrics {
  constructor(host) {
    this.card = new Card(host, "Metrics of the topology");
    this.table = new Table({
      label: "Metrics of the topology",
      keyOf: (row) => row.key,
      columns: [
        { title: "Metric", kind: "user", value: (row) => row.name, text: (row) => row.name },
        { title: "Labels", kind: "user", text: (row) => row.labelled },
        { title: "Task", kind: "user", value: (row) => row.component, text: (row) => `${row.component} [${row.task}]` },
        { title: "Value", kind: "number", value: (row) => row.value ?? row.count, text: (row) => figure(row.value ?? row.count) },
        { title: "p50", kind: "number", value: (row) => row.p50, text: (row) => (row.p50 === undefined ? "" : figure(row.p50)) },
        { title: "p99", kind: "number", value: (row) => row.p99, text: (row) => (row.p99 === undefined ? "" : figure(row.p99)) },
      ],
    });
    this.card.add(this.table.element);
  }

  show(sample) {
    const rows = (sample.metrics ?? []).map((row) => {
      const labelled = Object.entries(row.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(", ");
      return { ...row, labelled, key: JSON.stringify([row.name, row.component, row.task, labelled]) };
    });
    this.card.show(rows.length > 0, plural(rows.length, "value"));
    this.table.show(rows);
  }
}
