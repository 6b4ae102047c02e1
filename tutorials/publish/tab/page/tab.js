// The page: it loads the machine's state, lets it go on, and joins it with a terminal and a picture.

import { FitAddon } from "./addon-fit.mjs";
import { V86 } from "./libv86.mjs";
import { MEMORY, machine } from "./machine.js";
import { Trouble, unpack } from "./state.js";
import { language, t, translate } from "./words.js";
import { Terminal } from "./xterm.mjs";

const OFFERS = [
  "minirun run --network none busybox true",
  "minirun run --gpus 0,1 ubuntu sh -c 'ls /dev; nvidia-smi -L'",
  "minirun run -it ubuntu",
  "minirun explain pivot_root",
  "ls /opt/minirun/tutorials",
];
const CLEAR = "\f";  // the shell draws its prompt anew
const PROMPT = "# ";
const MOST = 256;  // bytes of one buffer
const HUNG = 20;  // seconds without one instruction
const byId = (id) => document.getElementById(id);
const began = performance.now();
const since = (from) => `${((performance.now() - from) / 1000).toFixed(1)} s`;
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

function say(text) {
  byId("progress").textContent = text;
  byId("progress").hidden = !text;
}

function fail(text) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = false;
  say("");
}

/** Write one measured figure into the footer. */
function measured(name, text) {
  const known = [...byId("measured").children].find((row) => row.dataset.name === name);
  const row = known ?? document.createElement("div");
  row.dataset.name = name;
  const term = document.createElement("dt"), value = document.createElement("dd");
  term.textContent = `${name}:`;
  value.textContent = text;
  row.replaceChildren(term, value);
  if (!known) byId("measured").append(row);
}

function look() {
  if (typeof WebAssembly !== "object") throw new Trouble(t("noWasm"));
  try {
    new WebAssembly.Memory({ initial: (MEMORY + (64 << 20)) / 65536 });
  } catch {
    throw new Trouble(t("noMemory", MEMORY >> 20));
  }
}

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

/** Count what came over the network, and tell of a part of the disk that did not. */
function watchNetwork() {
  let total = 0;
  const count = (list) => {
    for (const each of list.getEntries()) {
      total += each.encodedBodySize;
      if (each.responseStatus >= 400 && each.name.includes("/disk-")) fail(t("noPart", each.name));
    }
    measured(t("fetched"), megabytes(total));
  };
  performance.setResourceTimingBufferSize(10000);
  new PerformanceObserver(count).observe({ type: "resource", buffered: true });
  return () => total;
}

function watchMachine(emulator) {
  let last = -1, quiet = 0;
  setInterval(() => {
    const now = emulator.get_instruction_counter();
    quiet = now === last && document.visibilityState === "visible" ? quiet + 1 : 0;
    last = now;
    if (quiet === HUNG) fail(t("hung", HUNG));
  }, 1000);
  let line = "";
  emulator.add_listener("serial0-output-byte", (byte) => {
    line = byte === 10 ? "" : line + String.fromCharCode(byte);
    if (line.includes("Kernel panic")) fail(t("panic", line));
  });
}

/** The pictures: JSON lines of the second port. A frame that is not there yet gets its news later. */
function joinPicture(emulator) {
  const frame = byId("picture"), decoder = new TextDecoder();
  let rest = "", ready = false, waiting = [];
  window.addEventListener("message", (message) => {
    if (message.source !== frame.contentWindow || message.data.had === undefined) return;
    ready = true;
    waiting.splice(0).forEach((news) => frame.contentWindow.postMessage(news, "*"));
  });
  emulator.add_listener("virtio-console1-output-bytes", (bytes) => {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const { page, news } = JSON.parse(line);
      if (page) {
        ready = false;
        waiting = [];
        frame.srcdoc = page;
        frame.hidden = false;
        byId("nothing").hidden = true;
      } else if (ready) frame.contentWindow.postMessage(news, "*");
      else waiting.push(news);
    }
  });
}

/** What is typed waits until the machine has a buffer for it: v86 drops what comes before. */
function keyboard(emulator) {
  const encoder = new TextEncoder(), { queues } = emulator.v86.cpu.devices.virtio_console.virtio;
  let waiting = [], timer = 0;
  const pass = () => {
    while (waiting.length && queues[0].has_request()) {
      emulator.bus.send("virtio-console0-input-bytes", Uint8Array.from(waiting.splice(0, MOST)));
    }
    timer = waiting.length ? setTimeout(pass, 10) : 0;
  };
  return (text) => {
    waiting = waiting.concat([...encoder.encode(text)]);
    if (!timer) pass();
  };
}

/** Join the terminal, and measure what minirun takes: the shell tells where a command begins and ends. */
function joinTerminal(emulator, terminal) {
  const type = keyboard(emulator);
  let command = "", from = 0;
  emulator.add_listener("virtio-console0-output-bytes", (bytes) => terminal.write(bytes));
  terminal.onData(type);
  terminal.parser.registerOscHandler(133, (sign) => {
    if (sign === "C") {
      command = typed(terminal);
      from = performance.now();
    } else if (sign === "D" && from) {
      if (command.startsWith("minirun ")) measured(command, since(from));
      from = 0;
    }
    return true;
  });
  return type;
}

/** Return the command above the cursor; the terminal may have broken its line. */
function typed(terminal) {
  const buffer = terminal.buffer.active;
  let text = "", row = buffer.baseY + buffer.cursorY;
  do {
    row -= 1;
    text = (buffer.getLine(row)?.translateToString(true) ?? "") + text;
  } while (buffer.getLine(row)?.isWrapped);
  return text.slice(text.indexOf(PROMPT) + PROMPT.length).trim();
}

function resize(emulator, terminal, fit) {
  const tell = () => {
    fit.fit();
    emulator.bus.send("virtio-console0-resize", [terminal.cols, terminal.rows]);
  };
  new ResizeObserver(tell).observe(byId("terminal"));
  tell();
}

/** Ask for a prompt until it is there: what is sent too early is lost. */
function prompt(terminal, type) {
  return new Promise((done) => {
    type(CLEAR);
    const asking = setInterval(() => type(CLEAR), 1000);
    const heard = terminal.onCursorMove(() => {
      const buffer = terminal.buffer.active;
      const text = buffer.getLine(buffer.baseY + buffer.cursorY).translateToString();
      if (!text.slice(0, buffer.cursorX).endsWith(PROMPT)) return;
      clearInterval(asking);
      heard.dispose();
      done();
    });
  });
}

function offer(terminal, type) {
  byId("offers").replaceChildren(...OFFERS.map((text) => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => {
      terminal.focus();
      type(`${text}\n`);
    });
    item.append(button);
    return item;
  }));
}

async function main() {
  translate();
  say(t("begins"));
  look();
  const fetched = watchNetwork();
  const about = await (await get("tab.json", { cache: "no-cache" })).json();
  const state = unpack(await download("state.bin", about.bytes), about);
  const loaded = performance.now();
  say(t("goesOn"));
  const terminal = new Terminal({ fontSize: 14, scrollback: 5000 }), fit = new FitAddon();
  terminal.loadAddon(fit);
  const emulator = new V86({
    ...machine("v86.wasm", { url: `disk-${about.disk}/part.img.zst`, size: about.size, use_parts: true }),
    initial_state: { buffer: state.slice().buffer },
  });
  emulator.add_listener("emulator-loaded", async () => {
    const type = joinTerminal(emulator, terminal);
    byId("frame").hidden = false;
    terminal.open(byId("terminal"));
    joinPicture(emulator);
    resize(emulator, terminal, fit);
    emulator.run();
    await prompt(terminal, type);
    say("");
    measured(t("toPrompt"), since(began));
    measured(t("afterDownload"), since(loaded));
    measured(t("download"), megabytes(fetched()));
    emulator.bus.send("virtio-console1-input-bytes", new TextEncoder().encode(`${Math.round(Date.now() / 1000)} ${language}\n`));
    watchMachine(emulator);
    offer(terminal, type);
    terminal.focus();
    document.body.dataset.ready = "yes";
  });
}

window.addEventListener("unhandledrejection", ({ reason }) => {
  if (!(reason instanceof Trouble)) fail(t("stopped", reason?.message ?? reason));
});
main().catch((error) => fail(error instanceof Trouble ? error.message : t("stopped", error.message)));
