// The buttons of `minirun run --step`: each types the stepper's own keys into the terminal, as a reader
// would. They can be pressed while the machine's log says that the run is held at a gate, and the
// stepper has the terminal: with its whole screen, or, as --step=plain, below its line of keys.

import { byId, make } from "./said.js";
import { t } from "./words.js";

const ESCAPE = "\x1b";  // closes a page or a question of the stepper's; else it means nothing to it
const LAST = 7;
const PLAIN = "[n]ext ";
const MOVING = ["nextEvent", "nextStop", "nextStage", "toTheEnd", "giveUp"];
const STILL = 5000;  // ms after which a run that has not moved will not: there is no such stop
const KEYS = {
  nextEvent: () => "u*\r",
  nextStop: () => "n",
  nextStage: ({ stage }) => `u${stage + 1}\r`,
  toTheEnd: () => "c",
  why: () => "?",
  inspect: () => "i",
  back: () => "b",
  shell: () => "s",
  giveUp: () => "q",
};

export class Stepper {
  constructor(terminal) {
    this.terminal = terminal;
    this.gate = null;
    this.held = null;  // the gate, if the stepper waits for a key
    this.buttons = Object.keys(KEYS).map((name) => {
      const button = make("button", { type: "button", title: t(`${name}About`) }, t(name));
      button.dataset.step = name;
      button.addEventListener("click", () => this.press(name));
      return button;
    });
    byId("step").replaceChildren(...this.buttons);
    this.pressed = "";  // the button, until it is answered: a double click passes one stop
    terminal.xterm.onWriteParsed(() => {
      if (!MOVING.includes(this.pressed)) this.pressed = "";
      this.show();
    });
    this.show();
  }

  /** The run is held at this gate, as its log says; null: it goes on, or is over. */
  at(gate) {
    if (gate !== this.gate) this.answer();
    this.gate = gate;
    if (gate) byId("step").hidden = false;
    this.show();
  }

  answer() {
    clearTimeout(this.timer);
    this.pressed = "";
  }

  isAsked() {
    const { active } = this.terminal.xterm.buffer;
    const text = (row) => active.getLine(row)?.translateToString(true) ?? "";
    if (active.type === "alternate") return Array.from({ length: this.terminal.xterm.rows }, (_, row) => text(row)).some(Boolean);
    let row = active.baseY + active.cursorY - 1;
    while (active.getLine(row)?.isWrapped) row -= 1;
    return !active.cursorX && text(row).startsWith(PLAIN);
  }

  show() {
    this.held = this.gate && !this.pressed && this.isAsked() ? this.gate : null;
    if (this.terminal.free) byId("step").hidden = true;  // the shell has the terminal again
    for (const button of this.buttons) {
      const no = !this.held || (button.dataset.step === "nextStage" && this.held.stage >= LAST);
      button.setAttribute("aria-disabled", no);  // a button that is disabled would lose the focus
    }
  }

  press(name) {
    const button = this.buttons.find((each) => each.dataset.step === name);
    if (button.getAttribute("aria-disabled") === "true") return;
    this.terminal.type(ESCAPE + KEYS[name](this.held));
    this.pressed = name;
    if (MOVING.includes(name)) {
      this.timer = setTimeout(() => {
        this.answer();
        this.show();
      }, STILL);
    }
    this.show();
    if (name === "shell") this.terminal.focus();
  }
}
