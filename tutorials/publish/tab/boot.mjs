// Starts the machine in node, waits until it is at its prompt, and saves its state.
// node boot.mjs V86 BIOS VGABIOS KERNEL INITRD DISK STATE

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { machine } from "./page/machine.js";

const [v86, bios, vga, kernel, initrd, disk, state] = process.argv.slice(2);
const { V86 } = await import(pathToFileURL(path.join(v86, "libv86.mjs")));
const began = performance.now();
const seconds = () => ((performance.now() - began) / 1000).toFixed(1);
const log = (text) => console.log(`${seconds().padStart(6)}  ${text}`);

const QUIET = 5000;  // ms without a picture

const LINE = "console=ttyS0 rdinit=/init quiet tsc=reliable mitigations=off random.trust_cpu=on nowatchdog"
  + " init_on_alloc=0 hardened_usercopy=off audit=0 lsm=";
const emulator = new V86({
  ...machine(path.join(v86, "v86.wasm"), { url: disk, size: fs.statSync(disk).size }),
  bios: { url: bios }, vga_bios: { url: vga }, bzimage: { url: kernel }, initrd: { url: initrd },
  cmdline: process.env.TAB_CMDLINE ?? LINE,
});

let line = "";
emulator.add_listener("serial0-output-byte", (byte) => {
  const letter = String.fromCharCode(byte);
  if (letter !== "\n") { line += letter; return; }
  log(line.trimEnd());
  line = "";
});
let seen = "";
emulator.add_listener("virtio-console0-output-bytes", (bytes) => {
  const text = Buffer.from(bytes).toString();
  seen += text;
  if (process.env.TAB_SHOW) process.stdout.write(text);
});
let drawn = performance.now();
emulator.add_listener("virtio-console1-output-bytes", () => { drawn = performance.now(); });
const type = (text) => emulator.bus.send("virtio-console0-input-bytes", Buffer.from(text));
const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** Wait for a text of the terminal; what came before it is forgotten. */
async function until(text, limit = 900) {
  for (const end = performance.now() + limit * 1000; !seen.includes(text);) {
    if (performance.now() > end) throw new Error(`no ${JSON.stringify(text)} after ${limit} s: ${seen.slice(-300)}`);
    await pause(20);
  }
  const found = seen.slice(0, seen.indexOf(text));
  seen = seen.slice(seen.indexOf(text) + text.length);
  return found;
}

/** Type a line at the prompt, and return the seconds until the next prompt. */
async function shell(command) {
  const from = performance.now(), before = process.cpuUsage();
  type(`${command}; echo END''ED\n`);
  const said = await until("ENDED");
  await until("# ");
  const { user, system } = process.cpuUsage(before);
  const took = (performance.now() - from) / 1000;
  log(`${took.toFixed(2)} s, ${((user + system) / 1e6).toFixed(2)} s of processor time: ${command}`);
  return said.slice(said.indexOf("\n") + 1);
}

emulator.add_listener("emulator-loaded", () => { emulator.run(); });
await until("# ");
log("the first prompt");
// v86 sends a terminal's rows first, as older kernels read them; virtio's text has the columns first.
emulator.bus.send("virtio-console0-resize", [100, 40]);
const sized = (await shell("stty size")).includes("100 40") ? "columns first" : "rows first";
emulator.bus.send("virtio-console0-resize", [80, 25]);
const lines = fs.readFileSync(process.env.TAB_WARM ?? new URL("warm.sh", import.meta.url), "utf8").split("\n");
for (const command of lines.filter((each) => each && !each.startsWith("#"))) console.log(await shell(command));
while (performance.now() - drawn < QUIET) await pause(100);  // half a line would go to the page
emulator.stop();
const saved = await emulator.save_state();
fs.writeFileSync(state, Buffer.from(saved));
fs.writeFileSync(`${state}.json`, JSON.stringify({ sized }));
log(`${(saved.byteLength / 1e6).toFixed(1)} MB of state`);
process.exit(0);
