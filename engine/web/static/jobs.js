// Panel of the jobs on Spark: totals, the newest jobs, and the stages of one of them.

import { el, setAddress, setAttr, setShown, setText } from "./dom.js";
import { Card } from "./failures.js";
import { bytes, clock, count, grouped, ms } from "./format.js";
import { Table, factList } from "./tables.js";

const keyOf = (job) => `${job.txid} ${job.attempt_id}`;
const sum = (job, name) => (job.stages.length > 0 ? job.stages.reduce((total, stage) => total + stage[name], 0) : null);
const slowestOf = (stages) => stages.reduce((most, stage) => (stage.slowest_secs > (most?.slowest_secs ?? -1) ? stage : most), null);
const slowestText = (stage) => (stage ? `${stage.slowest_components.join(" + ")} [${stage.slowest_partition}] ${ms(1000 * stage.slowest_secs)}` : "–");
const SLOWEST = "The components of the slowest partition, its number, and its time";
const SHUFFLED = "What the tasks sent through Spark. Result files do not count";

/** Jobs on Spark. A click on a job shows its stages; else those of the newest one that has returned are shown. */
export class Jobs {
  constructor(host) {
    this.card = new Card(host, "Spark jobs");
    this.facts = factList();
    this.link = el("a", { class: "user" });
    this.address = el("p", { class: "note" }, el("span", { text: "Spark's own page: " }), this.link);
    this.off = el("p", { class: "note", text: "Spark's own page is off. spark.ui.enabled=true in SparkConfig(conf=...) switches it on." });
    this.jobs = new Table({
      label: "Newest jobs on Spark",
      keyOf,
      onRow: (job) => this.choose(keyOf(job)),
      columns: [
        { title: "Began", kind: "time", text: (job) => clock(job.began) },
        { title: "Txid", kind: "number", value: (job) => job.txid, text: (job) => grouped(job.txid) },
        { title: "State", cell: () => stateCell() },
        { title: "Time", kind: "number", value: (job) => job.secs, text: (job) => ms(1000 * job.secs) },
        { title: "Rows", hint: SHUFFLED, kind: "number", value: (job) => sum(job, "shuffled_rows"), text: (job) => count(sum(job, "shuffled_rows")) },
        { title: "Shuffled", hint: SHUFFLED, kind: "number", value: (job) => sum(job, "shuffled_bytes"), text: (job) => bytes(sum(job, "shuffled_bytes")) },
        { title: "Slowest partition", hint: SLOWEST, kind: "user", text: (job) => slowestText(slowestOf(job.stages)) },
      ],
    });
    this.title = el("h3");
    this.stages = new Table({
      label: "Stages of a job",
      keyOf: (stage) => stage.level,
      columns: [
        { title: "Stage", kind: "number", value: (stage) => stage.level, text: (stage) => String(stage.level) },
        { title: "Components", kind: "user", text: (stage) => stage.components.join(", ") },
        { title: "Parts", hint: "Partitions", kind: "number", value: (stage) => stage.partitions, text: (stage) => count(stage.partitions) },
        { title: "Executed", hint: "Tuples", kind: "number", value: (stage) => stage.executed, text: (stage) => count(stage.executed) },
        { title: "Rows", hint: SHUFFLED, kind: "number", value: (stage) => stage.shuffled_rows, text: (stage) => count(stage.shuffled_rows) },
        { title: "Shuffled", hint: SHUFFLED, kind: "number", value: (stage) => stage.shuffled_bytes, text: (stage) => bytes(stage.shuffled_bytes) },
        { title: "Slowest partition", hint: SLOWEST, kind: "user", text: slowestText },
      ],
    });
    this.card.add(this.facts.element, this.address, this.off, this.jobs.element, this.title, this.stages.element);
    this.chosen = null;
  }

  choose(key) {
    this.chosen = key === this.chosen ? null : key;
    this.showStages();
  }

  show(sample) {
    const now = sample.jobs;
    this.card.show(Boolean(now), now ? now.master : "");
    if (!now) return;
    this.newest = now.newest;
    this.facts.show([
      ["Done", count(now.done)],
      ["Running", count(now.running.length)],
      ["Failed", count(now.failed), now.failed > 0 ? "bad" : null],
      ["Replaced", count(now.replaced)],
      ["Rows shuffled", count(now.shuffled_rows)],
      ["Shuffled", bytes(now.shuffled_bytes)],
      ["Spark", now.version ?? "–"],
      ["Application", now.application ?? "–", null, true],
    ]);
    setShown(this.address, Boolean(now.ui));
    setText(this.link, now.ui ?? "");
    setAddress(this.link, now.ui);
    setShown(this.off, Boolean(now.application) && !now.ui);
    this.jobs.show(now.newest);
    this.showStages();
  }

  showStages() {
    const job = this.newest.find((each) => keyOf(each) === this.chosen) ?? this.newest.find((each) => each.stages.length > 0);
    for (const element of [this.title, this.stages.element]) setShown(element, Boolean(job));
    this.jobs.select(job ? keyOf(job) : null);
    if (!job) return;
    const isKnown = job.stages.length > 0;
    setText(this.title, isKnown ? `Stages of txid ${grouped(job.txid)}` : `Txid ${grouped(job.txid)} has returned no stages`);
    setShown(this.stages.element, isKnown);
    this.stages.show(job.stages);
  }
}

function stateCell() {
  const element = el("span", { class: "pill" });
  return {
    element,
    update: (job) => {
      setText(element, job.state);
      setAttr(element, "data-state", job.state);
    },
  };
}
