// Many questions, one in flight, the last one wins. While a slider is dragged, answers come as fast as the server gives
// them; when the prefix changes, whatever is still on its way is dropped.

import { ApiError, post } from "./api.js";

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
