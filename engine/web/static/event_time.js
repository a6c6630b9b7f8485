// Panel of event time: the watermark of each component, and who holds the one that stands.

import { el, setShown, setText } from "./dom.js";
import { Card } from "./failures.js";
import { NONE, count, plural, secs } from "./format.js";
import { Table } from "./tables.js";

const STANDS_SECS = 5; // as in the snapshot's entry
const MOST_ROWS = 200;

const hasStopped = (row) => row.stood_secs >= STANDS_SECS && !row.has_ended && !row.is_idle;
const timeText = (row) => (row.has_ended ? "end" : (row.time ?? "none yet"));
const sum = (row, name) => {
  const counts = (row.tasks ?? []).map((task) => task[name] ?? null).filter((each) => each !== null);
  return counts.length === 0 ? null : counts.reduce((total, each) => total + each, 0);
};
const opened = (row) => sum(row, "open_windows");
const late = (row) => sum(row, "late_rows");
const lag = (row) => row.lag_secs ?? null;
const state = (row) => (row.has_ended ? "at its end" : row.is_idle ? "idle" : hasStopped(row) ? `stands ${secs(row.stood_secs)}` : "rises");

/** The watermarks. The first line names who holds the one that has stood longest. */
export class EventTime {
  constructor(host) {
    this.card = new Card(host, "Event time");
    this.trouble = el("p", { class: "trouble user", role: "status" });
    this.table = new Table({
      label: "Watermark of each component",
      keyOf: (row) => row.component_id,
      most: MOST_ROWS,
      columns: [
        { title: "Component", kind: "user", value: (row) => row.component_id, text: (row) => row.component_id },
        { title: "Watermark", hint: "UTC. No later row on time is before it", kind: "time", value: (row) => row.watermark ?? -Infinity, text: timeText },
        { title: "Behind", hint: "How far it is behind the clock", kind: "number", value: lag, text: (row) => (lag(row) === null ? NONE : secs(lag(row))) },
        { title: "Now", hint: "Whether it rises", value: (row) => (hasStopped(row) ? row.stood_secs : 0), text: state },
        { title: "Open", hint: "Sessions that are open, or panes of time windows", kind: "number", value: opened, text: (row) => count(opened(row)) },
        { title: "Late", hint: "Rows that came when all their windows were closed", kind: "number", value: late, text: (row) => count(late(row)) },
        { title: "Held by", hint: "The task that it waits for, and why", kind: "user", text: (row) => (hasStopped(row) ? (row.holder ?? "") : "") },
      ],
    });
    this.card.add(this.trouble, this.table.element);
  }

  show(sample) {
    const rows = sample.event_time ?? [];
    this.card.show(rows.length > 0, plural(rows.length, "component"));
    if (rows.length === 0) return;
    const [worst] = rows.filter(hasStopped).sort((a, b) => b.stood_secs - a.stood_secs);
    setShown(this.trouble, worst !== undefined);
    setText(this.trouble, worst ? `${worst.component_id} stands at ${timeText(worst)} for ${secs(worst.stood_secs)}. Held by ${worst.holder}` : "");
    this.table.show(rows);
  }
}
