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
