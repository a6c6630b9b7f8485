// The live page of a run. Takes one sample a second, and hands it to the parts.

import { Checkpoint, Flow, Kafka, Metrics, Transactions } from "./panels.js";
import { ComponentDetails, ComponentTable } from "./components.js";
import { Errors, Failures, Owed, Traces } from "./failures.js";
import { EventTime } from "./event_time.js";
import { Jobs } from "./jobs.js";
import { Graph, loadOf } from "./graph.js";
import { GraphView } from "./graph_view.js";
import { Header, showConnection } from "./header.js";
import { SampleStream, read } from "./stream.js";
import { Steering } from "./steer.js";
import { byId, setClass } from "./dom.js";
import { listenToKeys, startTheme } from "./keys.js";

const MEASURED = 120; // times of drawing that the browser keeps, under the name "draw"
const MANY = 60; // boxes

class Page {
  constructor() {
    this.steering = new Steering();
    this.header = new Header();
    const choose = (id) => this.choose(id);
    this.graph = new Graph(byId("graph-room"), choose);
    this.table = new ComponentTable(choose);
    byId("components").append(this.table.element);
    const parts = { viewport: byId("graph"), system: byId("system"), filter: byId("filter"), found: byId("found") };
    Object.assign(parts, { zoomIn: byId("zoom-in"), zoomOut: byId("zoom-out"), fit: byId("fit") });
    this.view = new GraphView(this.graph, parts, { onFilter: (text) => this.table.filter(text, byId("system").checked), onChoose: choose });
    this.view.onRebuild = () => {
      document.body.classList.toggle("many", this.graph.boxes.size > MANY); // without transitions
      this.draw();
    };
    this.details = new ComponentDetails(byId("details"), choose, (task, component) => this.steering.restart(task, component));
    const [left, right] = [byId("left"), byId("right")];
    this.panels = [new Failures(left), new Errors(right), new Owed(left), new Traces(left, (spout, id) => this.steering.trace(spout, id))];
    this.panels.push(new Checkpoint(right), new EventTime(right), new Transactions(right), new Jobs(right));
    this.curves = [new Flow(right), new Kafka(right)]; // they remember the last minute, so they need every sample
    this.panels.push(new Metrics(right));
    this.chosen = null; // by a person; null: follow the component that limits the run
    this.drawn = 0;
  }

  start() {
    startTheme();
    listenToKeys(this);
    this.stream = new SampleStream({
      onHistory: (history) => this.header.replace(history.samples ?? []),
      onSample: (sample) => this.take(sample),
      onEnd: () => {},
      onState: (state) => this.connection(state),
    });
    this.stream.start();
    this.loadTopology();
  }

  /** Read the topology, also after a lost connection: another run may have taken the place of the first one. */
  async loadTopology() {
    try {
      const topology = await read("api/topology");
      this.steering.setTopology(topology);
      this.view.build(topology);
      this.isLoaded = true;
    } catch (problem) {
      this.isLoaded = false;
      if (problem.status) this.steering.tell(`The topology cannot be read: ${problem.message}`, "problem");
    }
  }

  connection(now) {
    const wasLost = this.state === "lost";
    this.state = now.state;
    showConnection(now, this.sample);
    if (now.state === "live" && (wasLost || this.isLoaded === false)) this.loadTopology();
  }

  /** Keep the newest sample, and draw it with the next frame. A hidden page draws the totals and curves alone. */
  take(sample) {
    this.sample = sample;
    this.isNew = true;
    this.header.show(sample);
    for (const panel of this.curves) panel.show(sample);
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const { sample } = this;
    if (!sample) return;
    const from = performance.now();
    this.graph.show(sample);
    this.table.show(sample.components);
    this.showSelected();
    this.steering.show(sample);
    if (this.isNew) for (const panel of this.panels) panel.show(sample);
    this.isNew = false;
    setClass(byId("right").parentElement, "single", !byId("right").querySelector(":scope > section:not([hidden])"));
    document.body.classList.add("drawn");
    this.drawn += 1;
    if (this.drawn % MEASURED === 0) performance.clearMeasures("draw");
    performance.measure("draw", { start: from, end: performance.now() });
  }

  /** Select a component until Escape, or until it is chosen again. */
  choose(id) {
    this.chosen = id === this.chosen ? null : id;
    this.showSelected();
    if (this.chosen !== null) this.view.reveal(this.chosen);
  }

  /** Select the component that limits the run. */
  follow() {
    this.chosen = null;
    this.showSelected();
    const limiting = this.sample?.bottleneck?.component;
    if (limiting) this.view.reveal(limiting);
  }

  showSelected() {
    const { sample } = this;
    if (!sample) return;
    const find = (id) => sample.components.find((component) => component.id === id);
    const limiting = sample.bottleneck?.component;
    if (limiting && find(limiting)) this.followed = limiting;
    if (!find(this.followed)) this.followed = busiest(sample.components)?.id;
    const id = find(this.chosen) ? this.chosen : this.followed;
    this.graph.select(id);
    this.table.select(id);
    const limits = id === limiting ? "Limits the run now." : this.chosen === null ? "The busiest component." : "";
    const kept = this.chosen === null ? "Select a component to keep it here." : "Esc returns to the component that limits the run.";
    this.details.show(id, [limits, kept].filter(Boolean).join(" "), sample);
  }
}

/** Return the user's component with the largest load. */
function busiest(components) {
  const own = components.filter((component) => !component.system);
  return [...own].sort((a, b) => (loadOf(b) ?? 0) - (loadOf(a) ?? 0))[0];
}

new Page().start();
