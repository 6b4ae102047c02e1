// The tab's machine without a browser: it goes on from its saved state, and its terminal is this
// program's standard input and output, byte by byte, until that input ends.
// node terminal.mjs PAGE DISK     PAGE: what `make tab` has made; DISK: its disk, in one (disk.join)

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { machine } from "./page/machine.js";

const MOST = 256;  // bytes of one buffer of the console
const page = path.resolve(process.argv[2]);
const { V86 } = await import(pathToFileURL(path.join(page, "libv86.mjs")));
const disk = process.argv[3];
const state = fs.readFileSync(path.join(page, "state.bin"));
const emulator = new V86({
  ...machine(path.join(page, "v86.wasm"), {
    url: disk, size: fs.statSync(disk).size,
  }),
  initial_state: { buffer: Uint8Array.from(state.subarray(state.indexOf(10) + 1)).buffer },
});

let waiting = Buffer.alloc(0);
/** What is typed waits until the machine has a buffer for it: v86 drops what comes before. */
function pass() {
  const { queues } = emulator.v86.cpu.devices.virtio_console.virtio;
  while (waiting.length && queues[0].has_request()) {
    emulator.bus.send("virtio-console0-input-bytes", Uint8Array.from(waiting.subarray(0, MOST)));
    waiting = waiting.subarray(MOST);
  }
}

emulator.add_listener("virtio-console0-output-bytes", (bytes) => process.stdout.write(Buffer.from(bytes)));
emulator.add_listener("emulator-loaded", () => {
  emulator.bus.send("virtio-console0-resize", [process.stdout.columns ?? 200, process.stdout.rows ?? 50]);
  emulator.bus.send("virtio-console1-input-bytes", Buffer.from(`${Math.round(Date.now() / 1000)} en\n`));
  emulator.run();
  setInterval(pass, 10);
});
process.stdin.setRawMode?.(true);
process.stdin.on("data", (bytes) => { waiting = Buffer.concat([waiting, bytes]); });
process.stdin.on("end", () => process.exit(0));
