// The samples of the run, as the server sends them. Notices when they stop.

const SILENCE_MS = 5000; // a sample comes each second, but the server samples a run of many tasks less often
const SILENT_GAPS = 3; // samples that may be missing before a slow server counts as lost
const RETRY_MS = 2000;
const HUNG_FACTOR = 2.4; // a connection that is open and silent for so many times the limit is opened again

/** Return the address of a part of the server. The page may be mounted anywhere, so all addresses are relative. */
export function address(path) {
  return new URL(path, document.baseURI).href;
}

/** Reads /api/events. Calls onHistory, onSample, onEnd and onState({state: "connecting" | "live" | "lost" | "ended", silentSecs}). */
export class SampleStream {
  constructor({ onHistory, onSample, onEnd, onState }) {
    this.handlers = { onHistory, onSample, onEnd, onState };
    this.lastMs = performance.now();
    this.openedMs = this.lastMs;
    this.gapMs = 0;
    this.state = "connecting";
    this.hasSample = false;
  }

  start() {
    this.open();
    this.timer = setInterval(() => this.check(), 500);
  }

  open() {
    this.source?.close();
    this.openedMs = performance.now();
    const source = new EventSource(address("api/events"));
    this.source = source;
    const listen = (name, action) =>
      source.addEventListener(name, (event) => {
        if (this.source === source) action(JSON.parse(event.data));
      });
    listen("history", (history) => this.handlers.onHistory(history));
    listen("sample", (sample) => this.took(sample, "live"));
    listen("end", (sample) => {
      source.close();
      clearInterval(this.timer);
      this.took(sample, "ended");
      this.handlers.onEnd(sample);
    });
  }

  took(sample, state) {
    const now = performance.now();
    this.gapMs = this.hasSample && this.state === "live" ? now - this.lastMs : 0;
    this.lastMs = now;
    this.hasSample = true;
    if (sample) this.handlers.onSample(sample);
    this.tell(state, 0);
  }

  /** Called twice a second. */
  check() {
    const now = performance.now();
    const silentMs = now - this.lastMs;
    const limitMs = Math.max(SILENCE_MS, SILENT_GAPS * this.gapMs);
    if (silentMs > limitMs || (this.source.readyState !== EventSource.OPEN && this.hasSample && silentMs > RETRY_MS)) {
      this.tell("lost", Math.round(silentMs / 1000));
    }
    const sinceOpenMs = now - this.openedMs;
    const isGivenUp = this.source.readyState === EventSource.CLOSED; // after an answer such as 503, the browser does not try again
    if ((isGivenUp && sinceOpenMs > RETRY_MS) || (Math.min(silentMs, sinceOpenMs) > limitMs * HUNG_FACTOR)) this.open();
  }

  tell(state, silentSecs) {
    if (state === this.state && silentSecs === this.silentSecs) return;
    this.state = state;
    this.silentSecs = silentSecs;
    this.handlers.onState({ state, silentSecs });
  }
}

/** Return the JSON of a GET. Throws Error with the server's text. */
export async function read(path) {
  return answerOf(await fetch(address(path), { headers: { Accept: "application/json" } }));
}

/** Return the JSON of an answer. Throws Error, with `status` and `hint`, if the server refused. */
export async function answerOf(response) {
  const body = await response.text();
  let answer;
  try {
    answer = JSON.parse(body);
  } catch {
    answer = { error: body.slice(0, 500) };
  }
  if (response.ok) return answer;
  const problem = new Error(String(answer?.error || `the server answered ${response.status}`));
  throw Object.assign(problem, { status: response.status, hint: answer?.hint ? String(answer.hint) : "" });
}
