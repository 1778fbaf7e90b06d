// Light or dark: as the system says, until the button says otherwise. Kept in this browser, not in the link.

import { byId, set } from "./dom.js";

const KEY = "llrnn-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = localStorage.getItem(KEY);
  return chosen === null ? system.matches : chosen === "dark";
}

function show() {
  const chosen = localStorage.getItem(KEY);
  set(document.documentElement, "data-theme", chosen);
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
