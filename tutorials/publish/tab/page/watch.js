// What can go wrong, and how the page sees it: the browser, the network, the machine.

import { MEMORY } from "./machine.js";
import { Trouble, fail, measured, megabytes } from "./said.js";
import { t } from "./words.js";

const HUNG = 20;  // seconds without one instruction
const ENDED = [["Kernel panic", "panic"], ["System halted", "halted"], ["Restarting system", "halted"], ["Power down", "halted"]];

/** Look if the browser can have the machine. Throws Trouble. */
export function look() {
  if (typeof WebAssembly !== "object") throw new Trouble(t("noWasm"));
  try {
    new WebAssembly.Memory({ initial: (MEMORY + (64 << 20)) / 65536 });
  } catch {
    throw new Trouble(t("noMemory", MEMORY >> 20));
  }
}

/** Count what came over the network, and tell of a part of the disk that did not. */
export function watchNetwork() {
  let total = 0;
  const count = (list) => {
    for (const each of list.getEntries()) {
      total += each.encodedBodySize;
      if (each.responseStatus >= 400 && each.name.includes("/disk-")) fail(t("noPart", each.name), { mend: true });
    }
    measured(t("fetched"), megabytes(total));
  };
  performance.setResourceTimingBufferSize(10000);
  new PerformanceObserver(count).observe({ type: "resource", buffered: true });
  return () => total;
}

/** Tell if the machine executes nothing any more, or says on its serial line that it has ended. */
export function watchMachine(emulator, isWatched) {
  let last = -1, quiet = 0;
  setInterval(() => {
    const now = emulator.get_instruction_counter();
    const same = now === last && document.visibilityState === "visible" && isWatched();
    quiet = same ? quiet + 1 : 0;
    last = now;
    if (quiet === HUNG) fail(t("hung", HUNG), { mend: true });
  }, 1000);
  let line = "";
  emulator.add_listener("serial0-output-byte", (byte) => {
    line = byte === 10 ? "" : line + String.fromCharCode(byte);
    const [, word] = ENDED.find(([sign]) => line.includes(sign)) ?? [];
    if (word && isWatched()) fail(t(word, line.trim()), { mend: true });
  });
}
