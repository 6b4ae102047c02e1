// Figure 3 of the newest run, as the machine draws it: a page of its own, in a frame that has no
// rights here. It comes as JSON lines of the console's second port.

import { byId } from "./said.js";

/** Return the message in a line, or nothing if it is none. */
function read(line) {
  try {
    return JSON.parse(line) ?? {};
  } catch {
    return {};
  }
}

export class Picture {
  constructor(emulator) {
    this.frame = byId("picture");
    this.decoder = new TextDecoder();
    this.clear();
    window.addEventListener("message", (message) => {
      if (message.source !== this.frame.contentWindow || message.data?.had === undefined) return;
      this.ready = true;
      this.frame.dataset.ready = "yes";
      this.waiting.splice(0).forEach((news) => this.pass(news));
    });
    emulator.add_listener("virtio-console1-output-bytes", (bytes) => this.take(bytes));
  }

  clear() {
    Object.assign(this, { rest: "", ready: false, waiting: [] });
    this.frame.hidden = true;
    this.frame.removeAttribute("srcdoc");
    this.frame.dataset.ready = "no";
    byId("nothing").hidden = false;
  }

  take(bytes) {
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.rest = lines.pop();
    for (const { page, news } of lines.map(read)) {
      if (typeof page === "string") {
        Object.assign(this, { ready: false, waiting: [] });
        this.frame.srcdoc = page;
        this.frame.hidden = false;
        byId("nothing").hidden = true;
      } else if (news && this.ready) this.pass(news);
      else if (news) this.waiting.push(news);  // the frame is not there yet
    }
  }

  pass(news) {
    this.frame.contentWindow.postMessage(news, "*");  // it has no origin that could be named
  }
}
