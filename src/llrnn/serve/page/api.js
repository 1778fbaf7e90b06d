// The HTTP API: JSON there and back, events of a stream, one kind of error, and the token where the server wants one.

const TOKEN = "llrnn-token";

/** What went wrong: the server's own code and sentence. `seconds`: when to try again, where it said so. */
export class ApiError extends Error {
  constructor(status, code, message, seconds = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.seconds = seconds;
  }
}

/** The token lives as long as the tab, and nowhere else. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => sessionStorage.setItem(TOKEN, text),
};

export function get(path, signal) {
  return asked(path, { signal }).then((answer) => answer.json());
}

export function post(path, body, signal) {
  return asked(path, sent(body, signal)).then((answer) => answer.json());
}

/** Events of a stream, one by one: `onEvent(name, data)`. */
export async function stream(path, body, signal, onEvent) {
  const answer = await asked(path, sent(body, signal));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  signal.addEventListener("abort", () => reader.cancel().catch(() => {}));
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    signal.throwIfAborted(); // what was sent before is not read any more
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) emit(block, onEvent);
  }
}

function emit(block, onEvent) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (data.length) onEvent(name, JSON.parse(data.join("\n")));
}

function sent(body, signal) {
  return { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal };
}

let waiting = 0;

/** How many answers are awaited stands at the root of the page; a line at its top shows when that takes long. */
function wait(change) {
  waiting += change;
  if (waiting) document.documentElement.dataset.waiting = String(waiting);
  else delete document.documentElement.dataset.waiting;
}

async function asked(path, options) {
  wait(1);
  try {
    return await answered(path, options);
  } finally {
    wait(-1);
  }
}

async function answered(path, options) {
  const own = token.get();
  const headers = { ...options.headers, ...(own ? { Authorization: `Bearer ${own}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "no_answer", "The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  const seconds = Number(answer.headers.get("Retry-After"));
  const { code, message } = await answer.json().catch(() => ({}));
  throw new ApiError(
    answer.status,
    code ?? "unknown",
    message ?? `The server answered with status ${answer.status} and gave no reason.`,
    Number.isFinite(seconds) && seconds > 0 ? seconds : null,
  );
}

// Many questions, one in flight, the last one wins. While a slider is dragged, answers come as fast as the server gives
// them; when the prefix changes, whatever is still on its way is dropped.

const TRIES = 4;

/** After a pause of `wait` milliseconds, once; `now()` does not wait. */
export function debounced(run, wait) {
  let timer = null;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(later.now, wait);
  };
  later.now = () => {
    clearTimeout(timer);
    timer = null;
    run();
  };
  later.waits = () => timer !== null;
  return later;
}

/** One kind of question. `view` names what it is about: answers about another view are stale. */
export class Latest {
  #path;
  #answered;
  #failed;
  #asked = null; // the last question, as text
  #view = null;
  #waiting = null; // the question to send next
  #flight = null; // the AbortController of the one on its way

  constructor(path, answered, failed) {
    this.#path = path;
    this.#answered = answered;
    this.#failed = failed;
  }

  /** Ask, unless this is what was asked last. */
  ask(body, view) {
    const text = JSON.stringify(body);
    if (text === this.#asked) return;
    if (view !== this.#view) this.#drop();
    this.#asked = text;
    this.#view = view;
    this.#waiting = body;
    if (this.#flight === null) this.#send();
  }

  /** Forget everything: the same question would be asked again. */
  forget() {
    this.#drop();
    this.#asked = null;
    this.#view = null;
  }

  get busy() {
    return this.#flight !== null;
  }

  #drop() {
    this.#flight?.abort();
    this.#flight = null;
    this.#waiting = null;
  }

  async #send() {
    const flight = new AbortController();
    this.#flight = flight;
    let report = null;
    while (this.#waiting !== null && this.#flight === flight) {
      const body = this.#waiting;
      this.#waiting = null;
      report = await this.#outcome(body, flight);
      if (this.#flight !== flight) return; // another view by now
      if (this.#waiting === null) this.#flight = null;
      report();
    }
  }

  async #outcome(body, flight) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await post(this.#path, body, flight.signal);
        return () => this.#answered(answer, body);
      } catch (error) {
        const again = error instanceof ApiError && error.seconds !== null && attempt < TRIES;
        if (!again || flight.signal.aborted) return () => this.#failed(error);
        await new Promise((resolve) => setTimeout(resolve, 1000 * error.seconds));
      }
    }
  }
}
