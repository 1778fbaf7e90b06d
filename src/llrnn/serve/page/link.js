// "Copy link": into the clipboard where the browser allows it, else into a field to copy from.

import { byId } from "./dom.js";
import { store } from "./state.js";

const SAID = 2500; // milliseconds

/** `complete()` puts into the state what was left to the server so far. */
export function startLink(complete) {
  const button = byId("copy");
  const label = button.textContent;
  button.addEventListener("click", async () => {
    complete();
    const link = store.link();
    byId("link").value = link;
    try {
      await navigator.clipboard.writeText(link);
      button.textContent = "Link copied";
      setTimeout(() => (button.textContent = label), SAID);
    } catch {
      byId("link-box").hidden = false;
      byId("link").focus();
      byId("link").select();
    }
  });
}
