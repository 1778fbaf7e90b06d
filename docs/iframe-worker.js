// Browsers start no worker for a page that is opened from a folder. There, the theme's search runs in a hidden frame
// instead, which has the same messages. (The theme's plug-in looks for this name before it asks another host for one.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      this.ready = new Promise((resolve, reject) => {
        const frame = document.createElement("iframe");
        frame.hidden = true;
        frame.title = "search";
        frame.addEventListener("load", () => {
          const inner = frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const code = inner.document.createElement("script");
          code.src = script;
          code.onload = () => resolve(inner);
          code.onerror = reject;
          inner.document.head.append(code);
        }, { once: true });
        document.body.append(frame);
      });
    }

    postMessage(data) {
      this.ready.then((inner) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }
  };
}
