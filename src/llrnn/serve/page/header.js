// The buttons of the header: light or dark, and "Copy link".

import { byId, set } from "./dom.js";
import { store } from "./state.js";

// Light or dark: as the system says, until the button says otherwise. Kept in this browser, not in the link.

const KEY = "llrnn-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = localStorage.getItem(KEY);
  return chosen === null ? system.matches : chosen === "dark";
}

function show() {
  set(document.documentElement, "data-theme", localStorage.getItem(KEY));
  set(byId("theme"), "aria-pressed", String(isDark()));
}

export function startTheme() {
  show();
  system.addEventListener("change", show);
  byId("theme").addEventListener("click", () => {
    localStorage.setItem(KEY, isDark() ? "light" : "dark");
    show();
  });
}

// "Copy link": into the clipboard where the browser allows it, else into a field to copy from.

const SAID = 2500; // milliseconds

/** `complete()` puts into the state what was left to the server so far. */
export function startLink(complete) {
  const button = byId("copy");
  const label = button.textContent;
  button.addEventListener("click", async () => {
    complete();
    byId("link").value = store.link();
    try {
      await navigator.clipboard.writeText(byId("link").value);
      button.textContent = "Link copied";
      setTimeout(() => (button.textContent = label), SAID);
    } catch {
      byId("link-box").hidden = false;
      byId("link").focus();
      byId("link").select();
    }
  });
}
