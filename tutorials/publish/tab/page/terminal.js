// The terminal: what is typed, what comes back, and when the shell can take the next line.

import { FitAddon } from "./addon-fit.mjs";
import { byId, measured, since } from "./said.js";
import { t } from "./words.js";
import { Terminal } from "./xterm.mjs";

const CLEAR = "\f";  // the shell draws its prompt anew
const PROMPT = "# ";
const MOST = 256;  // bytes of one buffer
const LEAVE = "F6";  // Tab is the shell's

/** What is typed waits until the machine has a buffer for it: v86 drops what comes before. */
class Keyboard {
  constructor(emulator) {
    this.emulator = emulator;
    this.waiting = [];
    this.timer = 0;
  }

  type(text) {
    this.waiting = this.waiting.concat([...new TextEncoder().encode(text)]);
    if (!this.timer) this.pass();
  }

  pass() {
    const { queues } = this.emulator.v86.cpu.devices.virtio_console.virtio;
    while (this.waiting.length && queues[0].has_request()) {
      this.emulator.bus.send("virtio-console0-input-bytes", Uint8Array.from(this.waiting.splice(0, MOST)));
    }
    this.timer = this.waiting.length ? setTimeout(() => this.pass(), 10) : 0;
  }

  forget() {
    this.waiting = [];
  }
}

/** The terminal in the page, and the shell behind it. */
export class Console {
  /** `sized`: the order in which the machine's kernel reads the size; v86 sends the rows first. */
  constructor(emulator, sized) {
    this.emulator = emulator;
    this.sized = sized;
    this.keyboard = new Keyboard(emulator);
    this.xterm = new Terminal({ fontSize: 14, scrollback: 5000 });
    this.fit = new FitAddon();
    this.xterm.loadAddon(this.fit);
    this.lines = [];  // what is to be typed at the next prompts
    this.free = false;
    this.listener = () => {};
    emulator.add_listener("virtio-console0-output-bytes", (bytes) => this.xterm.write(bytes));
    this.xterm.onData((text) => this.keyboard.type(text));
    this.hearShell();
  }

  /** Put it into the page. */
  open() {
    byId("frame").hidden = false;
    this.xterm.open(byId("terminal"));
    this.xterm.textarea.setAttribute("aria-label", t("terminalLabel"));
    this.xterm.attachCustomKeyEventHandler(({ type, key }) => {
      if (key !== LEAVE) return true;
      if (type === "keydown") document.querySelector("#step:not([hidden]) button, #reset").focus();
      return false;
    });
    new ResizeObserver(() => this.resize()).observe(byId("terminal"));
    this.resize();
  }

  resize() {
    this.fit.fit();
    const { cols, rows } = this.xterm;
    this.emulator.bus.send("virtio-console0-resize", this.sized === "columns first" ? [rows, cols] : [cols, rows]);
  }

  type(text) {
    this.keyboard.type(text);
  }

  focus() {
    this.xterm.focus();
  }

  /** Paste lines at the next prompt: the shell takes them as one, so no command reads the next. */
  run(lines) {
    this.lines.push(lines);
    this.next();
  }

  next() {
    if (!this.free || !this.lines.length) return;
    this.free = false;
    this.xterm.paste(this.lines.shift().trimEnd());
    this.type("\r");
  }

  /** The shell tells where a command begins and ends: so minirun's are measured; and if it waits. */
  hearShell() {
    let command = "", from = 0;
    this.xterm.parser.registerOscHandler(133, (sign) => {
      if (sign === "C") {
        command = this.typed();
        from = performance.now();
        this.free = false;
      } else if (sign === "D" && from) {
        if (command.startsWith("minirun ")) measured(command, since(from));
        from = 0;
      } else if (sign === "B") {
        this.free = true;
        setTimeout(() => this.next(), 0);
      }
      this.listener(!this.free || this.lines.length > 0);
      return true;
    });
  }

  /** Return the command above the cursor; the terminal may have broken its line. */
  typed() {
    const buffer = this.xterm.buffer.active;
    let text = "", row = buffer.baseY + buffer.cursorY;
    do {
      row -= 1;
      text = (buffer.getLine(row)?.translateToString(true) ?? "") + text;
    } while (buffer.getLine(row)?.isWrapped);
    return text.slice(text.indexOf(PROMPT) + PROMPT.length).trim();
  }

  /** Return what stands left of the cursor. */
  left() {
    const buffer = this.xterm.buffer.active;
    return buffer.getLine(buffer.baseY + buffer.cursorY).translateToString().slice(0, buffer.cursorX);
  }

  /** Ask for a prompt until it is there: what is sent too early is lost. */
  prompt() {
    return new Promise((done) => {
      this.type(CLEAR);
      const asking = setInterval(() => this.type(CLEAR), 1000);
      const heard = this.xterm.onCursorMove(() => {
        if (!this.left().endsWith(PROMPT)) return;
        clearInterval(asking);
        heard.dispose();
        this.free = true;
        done();
      });
    });
  }

  /** Forget what was typed and shown. */
  reset() {
    this.keyboard.forget();
    this.lines = [];
    this.free = false;
    this.xterm.reset();
  }
}
