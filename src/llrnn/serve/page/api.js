// The HTTP API: JSON there and back, events of a stream, one kind of error, and the token where the server wants one.

import { set } from "./dom.js";
import { learnt } from "./words.js";

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

export async function get(path) {
  return learnt(await (await asked(path, {})).json());
}

export async function post(path, body) {
  return learnt(await (await asked(path, sent(body))).json());
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
  const values = (name) =>
    block.split("\n").flatMap((line) => (line.startsWith(`${name}:`) ? line.slice(name.length + 1).trimStart() : []));
  const data = values("data").join("\n");
  if (data) onEvent(values("event").at(-1) ?? "message", learnt(JSON.parse(data)));
}

function sent(body, signal) {
  return { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal };
}

let waiting = 0;

/** How many answers are awaited stands at the root of the page; a line at its top shows when that takes long. */
function wait(change) {
  waiting += change;
  set(document.documentElement, "data-waiting", waiting || null);
}

function asked(path, options) {
  wait(1);
  return answered(path, options).finally(() => wait(-1));
}

async function answered(path, options) {
  const own = token.get();
  const headers = { ...options.headers, ...(own ? { Authorization: `Bearer ${own}` } : {}) };
  let answer;
  try {
    answer = await fetch(path.slice(1), { ...options, headers }); // relative: a proxy may have put us below a path
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

/**
 * One kind of question: `ask(body, view)` unless this is what was asked last, `forget()` everything, `busy()`. `view`
 * names what it is about: answers about another view are stale.
 */
export function latest(path, answered, failed) {
  let last = null; // the last question, as text
  let about = null; // its view
  let waiting = null; // the question to send next
  let flight = null; // the AbortController of the one on its way

  function drop() {
    flight?.abort();
    flight = waiting = null;
  }

  async function send() {
    const own = (flight = new AbortController());
    while (waiting !== null && flight === own) {
      const body = waiting;
      waiting = null;
      const report = await outcome(body, own.signal);
      if (flight !== own) return; // another view by now
      if (waiting === null) flight = null;
      report();
    }
  }

  async function outcome(body, signal) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = learnt(await (await asked(path, sent(body, signal))).json());
        return () => answered(answer);
      } catch (error) {
        const again = error instanceof ApiError && error.seconds !== null && attempt < TRIES;
        if (!again || signal.aborted) return () => failed(error);
        await new Promise((resolve) => setTimeout(resolve, 1000 * error.seconds));
      }
    }
  }

  return {
    ask(body, view) {
      const text = JSON.stringify(body);
      if (text === last) return;
      if (view !== about) drop();
      [last, about, waiting] = [text, view, body];
      if (flight === null) send();
    },
    forget() {
      drop();
      last = about = null;
    },
    busy: () => flight !== null,
  };
}
