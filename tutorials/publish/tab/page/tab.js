// The page: it loads the machine's state, lets it go on, and joins it with a terminal and a picture.

import { V86 } from "./libv86.mjs";
import { begin, framed, joinHost } from "./host.js";
import { Live } from "./live.js";
import { machine } from "./machine.js";
import { offerOffline } from "./offline.js";
import { Picture } from "./picture.js";
import { Trouble, allIsWell, byId, fail, make, measured, megabytes, say, since } from "./said.js";
import { unpack } from "./state.js";
import { Stepper } from "./step.js";
import { Console } from "./terminal.js";
import { look, watchMachine, watchNetwork } from "./watch.js";
import { language, t, translate } from "./words.js";

const OFFERS = [
  "minirun run --network none busybox true",
  "minirun run --gpus 0,1 ubuntu sh -c 'ls /dev; nvidia-smi -L'",
  "minirun run --step --gpus 0,1 ubuntu sh -c 'ls /dev; nvidia-smi -L'",
  "minirun run -it ubuntu",
  "minirun explain pivot_root",
  "ls /opt/minirun/tutorials",
];
const PATIENCE = 1000;  // ms in which an emulator that works stops
const began = performance.now();

async function get(name, options) {
  const answer = await fetch(name, options).catch(() => null);
  if (!answer?.ok) throw new Trouble(t("notFetched", name, answer?.status ?? "–"));
  return answer;
}

/** Fetch a file and say how far it is. */
async function download(name, bytes) {
  const answer = await get(name, { cache: "no-cache" }), pieces = [];
  let had = 0;
  for (const reader = answer.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    had += value.length;
    say(t("coming", megabytes(had), megabytes(bytes)));
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/** The machine, and all that is joined with it. */
class Tab {
  /** `saved`: v86's state, compressed; it is kept for the reset. `sized`: see Console. */
  constructor(emulator, saved, sized) {
    this.emulator = emulator;
    this.saved = saved;
    this.resets = 0;  // that go on
    this.terminal = new Console(emulator, sized);
    this.picture = new Picture(emulator);
    this.stepper = new Stepper(this.terminal);
    this.live = new Live(emulator, (gate) => this.stepper.at(gate));
  }

  async start() {
    this.terminal.open();
    await this.goOn();
    watchMachine(this.emulator, () => !this.resets);
    this.offer();
    joinHost(this);
    if (!framed) this.terminal.focus();
  }

  /** Let the machine go on, and wait for its prompt. A saved machine has an old time of day. */
  async goOn() {
    this.emulator.run();
    await this.terminal.prompt();
    const now = `${Math.round(Date.now() / 1000)} ${language}\n`;
    this.emulator.bus.send("virtio-console1-input-bytes", new TextEncoder().encode(now));
    begin(this.terminal);
    say("");
  }

  /** Put the machine back to its saved state, whatever it does now. */
  async reset() {
    if (this.resets) return;
    this.resets += 1;
    const from = performance.now();
    document.body.dataset.ready = "no";
    say(t("resetting"));
    allIsWell();
    await Promise.race([this.emulator.stop(), new Promise((done) => { setTimeout(done, PATIENCE); })]);
    this.terminal.reset();
    this.picture.clear();
    this.live.clear();
    await this.emulator.restore_state(this.saved);
    this.terminal.resize();
    await this.goOn();
    measured(t("resetTook"), since(from));
    this.resets -= 1;
    if (!framed) this.terminal.focus();
    document.body.dataset.ready = "yes";
  }

  offer() {
    byId("offers").replaceChildren(...OFFERS.map((text) => {
      const button = make("button", { type: "button" }, text);
      button.addEventListener("click", () => {
        this.terminal.focus();
        this.terminal.type(`${text}\n`);
      });
      return make("li", {}, button);
    }));
    for (const name of ["reset", "mend"]) byId(name).addEventListener("click", () => this.reset());
    byId("reader").addEventListener("change", ({ target }) => {
      this.terminal.xterm.options.screenReaderMode = target.checked;
    });
    byId("tools").hidden = false;
  }
}

async function main() {
  translate();
  say(t("begins"));
  look();
  const fetched = watchNetwork();
  const text = await (await get("tab.json", { cache: "no-cache" })).text(), about = JSON.parse(text);
  const saved = unpack(await download("state.bin", about.bytes), about).slice().buffer;
  const loaded = performance.now();
  say(t("goesOn"));
  const emulator = new V86({
    ...machine("v86.wasm", { url: `disk-${about.disk}/part.img.zst`, size: about.size, use_parts: true }),
    initial_state: { buffer: saved },
  });
  emulator.add_listener("emulator-loaded", async () => {
    const tab = new Tab(emulator, saved, about.sized);
    await tab.start();
    measured(t("toPrompt"), since(began));
    measured(t("afterDownload"), since(loaded));
    measured(t("download"), megabytes(fetched()));
    await offerOffline(text);
    document.body.dataset.ready = "yes";
  });
}

window.addEventListener("unhandledrejection", ({ reason }) => {
  if (!(reason instanceof Trouble)) fail(t("stopped", reason?.message ?? reason));
});
main().catch((error) => fail(error instanceof Trouble ? error.message : t("stopped", error.message)));
