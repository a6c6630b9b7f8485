// Steering: the token, the buttons with their confirmation, and the answers of the server.

import { byId, el, setAttr, setShown, setText } from "./dom.js";
import { address, answerOf } from "./stream.js";

const KEPT = "stormcell-token"; // in sessionStorage: it ends with the tab
const MOST_MESSAGES = 4;
const MESSAGE_MS = 8000;
const ENDED = new Set(["complete", "drained", "stopped", "failed", "ended"]);
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

const QUESTIONS = {
  deactivate: { title: "Deactivate the spouts?", text: "The spouts emit no new tuples until someone activates them. Open trees go on.", yes: "Deactivate" },
  drain: { title: "Drain the run?", text: "The spouts stop, the open trees are finished, and the run ends. A drained run cannot go on.", yes: "Drain" },
  stop: { title: "Stop the run?", text: "The run ends without finishing its open trees. A source that can replay sends their messages again at the next start.", yes: "Stop", isDanger: true },
};

const DONE = { activate: "The spouts are active.", deactivate: "The spouts are deactivated.", drain: "The run drains, and then it ends.", stop: "The run stops." };

/** Keeps the token, asks before a change, and sends it. */
export class Steering {
  constructor() {
    this.canSteer = true;
    this.isEnded = false;
    this.buttons = [...document.querySelectorAll("button[data-action]")];
    this.level = byId("level");
    for (const level of LEVELS) this.level.append(el("option", { value: level, text: level.toLowerCase() }));
    this.takeFromAddress();
    addEventListener("hashchange", () => this.takeFromAddress());
    for (const button of this.buttons) button.addEventListener("click", () => this.change(button.dataset.action));
    this.level.addEventListener("change", () => this.setLevel());
    byId("token-button").addEventListener("click", () => this.askToken(""));
    byId("token-form").addEventListener("submit", (event) => this.tokenGiven(event));
    byId("token-forget").addEventListener("click", () => this.forget());
    for (const id of ["token-dialog", "confirm-dialog", "help-dialog"]) {
      for (const button of byId(id).querySelectorAll("[data-close]")) button.addEventListener("click", () => byId(id).close());
    }
    byId("token-dialog").addEventListener("close", () => this.settleToken());
    this.showToken();
  }

  /** Take the token of `#token=…`, and remove it from the address bar and from the history. */
  takeFromAddress() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given === null) return;
    history.replaceState(null, "", location.pathname + location.search);
    this.keep(given);
  }

  get token() {
    return sessionStorage.getItem(KEPT) ?? "";
  }

  keep(token) {
    if (token) sessionStorage.setItem(KEPT, token);
    else sessionStorage.removeItem(KEPT);
    this.showToken();
  }

  forget() {
    this.keep("");
    byId("token-dialog").close();
  }

  showToken() {
    const button = byId("token-button");
    setText(button, this.token ? "Token kept" : "Token…");
    setAttr(button, "data-state", this.token ? "kept" : "none");
    setShown(byId("token-forget"), this.token !== "");
    this.showButtons();
  }

  /** Explain at each button why it cannot work now. */
  showButtons() {
    const why = !this.canSteer
      ? "This server only shows the run. Start it with a token to steer the run."
      : this.isEnded
        ? "The run has ended."
        : this.token
          ? null
          : "Needs the token. A click asks for it.";
    for (const control of [...this.buttons, this.level]) {
      control.disabled = !this.canSteer || this.isEnded;
      setAttr(control, "title", why);
    }
    setShown(byId("steer-why"), !this.canSteer);
  }

  setTopology(topology) {
    this.canSteer = topology.can_steer !== false;
    this.showButtons();
  }

  show(sample) {
    this.isEnded = this.isEnded || ENDED.has(sample.state);
    this.showButtons();
    const level = (sample.log_level ?? "").toUpperCase();
    if (level && document.activeElement !== this.level) this.level.value = LEVELS.includes(level) ? level : "";
  }

  /** Activate, deactivate, drain or stop. */
  async change(action) {
    const question = QUESTIONS[action];
    if (!(await this.hasToken()) || (question && !(await this.confirm(question)))) return;
    await this.send(`api/${action}`, null, DONE[action]);
  }

  async setLevel() {
    const level = this.level.value;
    if (await this.hasToken()) await this.send("api/log-level", { level: level.toLowerCase() }, `The log level is ${level.toLowerCase()}.`);
  }

  async restart(task, component) {
    const text = `Task ${task} of '${component}' ends, and a new instance takes over. The inputs that it has taken and not acked fail.`;
    if (!(await this.hasToken()) || !(await this.confirm({ title: `Restart task ${task}?`, text, yes: "Restart" }))) return;
    await this.send(`api/tasks/${encodeURIComponent(task)}/restart`, null, `Task ${task} restarts.`);
  }

  async trace(component, messageId) {
    if (!(await this.hasToken())) return;
    await this.send("api/trace", { component, message_id: messageId }, `The message ${messageId} of '${component}' is traced.`);
  }

  /** Send a change. The answer of the server is shown as text. Returns true if the server has accepted it. */
  async send(path, body, done) {
    const headers = { Authorization: `Bearer ${this.token}` };
    if (body) headers["Content-Type"] = "application/json";
    try {
      await answerOf(await fetch(address(path), { method: "POST", headers, body: body && JSON.stringify(body) }));
      this.tell(done, "done");
      return true;
    } catch (problem) {
      if (problem.status === 401) this.keep("");
      this.tell(problem.status ? `${problem.message}${problem.hint ? `\n${problem.hint}` : ""}` : "The server cannot be reached. Nothing was changed.", "problem");
      return false;
    }
  }

  /** Show a message. A problem stays until it is closed. */
  tell(text, kind) {
    const host = byId("messages");
    const close = el("button", { type: "button", class: "small", text: "Close", onclick: () => message.remove() });
    const message = el("div", { class: "message", "data-kind": kind, role: kind === "problem" ? "alert" : "status" }, el("p", { class: "user", text }), close);
    host.append(message);
    while (host.children.length > MOST_MESSAGES) host.firstElementChild.remove();
    if (kind !== "problem") setTimeout(() => message.remove(), MESSAGE_MS);
  }

  /** Return true if there is a token. Asks for it, and explains where it stands. */
  async hasToken() {
    if (!this.canSteer || this.isEnded) {
      this.tell(this.isEnded ? "The run has ended. Nothing was changed." : "This server only shows the run. Nothing was changed.", "problem");
      return false;
    }
    if (this.token) return true;
    return this.askToken("This change needs the token of the run.");
  }

  askToken(why) {
    setText(byId("token-why"), why);
    setShown(byId("token-why"), why !== "");
    byId("token-field").value = "";
    const dialog = byId("token-dialog");
    if (!dialog.open) dialog.showModal();
    byId("token-field").focus();
    this.settleToken();
    return new Promise((resolve) => {
      this.waitingForToken = resolve;
    });
  }

  tokenGiven(event) {
    event.preventDefault();
    const given = byId("token-field").value.trim();
    if (!given) return;
    this.keep(given);
    byId("token-dialog").close();
  }

  settleToken() {
    const resolve = this.waitingForToken;
    this.waitingForToken = null;
    resolve?.(this.token !== "");
  }

  /** Ask in the page. Returns true if the answer is yes. */
  confirm({ title, text, yes, isDanger = false }) {
    const dialog = byId("confirm-dialog");
    setText(byId("confirm-title"), title);
    setText(byId("confirm-text"), text);
    const button = byId("confirm-yes");
    setText(button, yes);
    setAttr(button, "class", isDanger ? "danger" : "primary");
    return new Promise((resolve) => {
      const accept = () => dialog.close("yes");
      const closed = () => {
        button.removeEventListener("click", accept);
        dialog.removeEventListener("close", closed);
        resolve(dialog.returnValue === "yes");
      };
      dialog.returnValue = "";
      button.addEventListener("click", accept);
      dialog.addEventListener("close", closed);
      dialog.showModal();
      (isDanger ? dialog.querySelector("[data-close]") : button).focus();
    });
  }
}
