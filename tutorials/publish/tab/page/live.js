// The newest run as it goes on, from the lines of its log: the seven stages, a mark for each event in
// the lane of its process, the latest event in words, and the gate at which a stepped run is held.

import { byId, make } from "./said.js";
import { t } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const STEP = 7, LANE = 18, NAME = 64;  // pixels: from event to event, from lane to lane, for names
const STAGES = 7;
const OPENED = "gate opened";
const HELPER = "step";  // the stepper's own notes are no acts of the run

const draw = (name, attributes) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

/** Return a value as one short line. */
function word(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** Return an event in words, as the log has it. */
function sentence({ stage, actor, kind, name, args, errno, why }) {
  const values = Object.values(args ?? {}).map(word).join(" ");
  const what = kind === "begin" || kind === "end" ? t(kind) : `${name} ${values}`;
  return `${t("stage", stage)} · ${actor}: ${what}${errno ? ` → ${errno}` : ""}${why ? ` (${why})` : ""}`;
}

/** Tell if a line of the log is an event that can be drawn: what a machine says is not trusted. */
function isEvent(event) {
  return typeof event === "object" && event !== null && typeof event.id === "string"
    && Number.isInteger(event.stage) && typeof event.actor === "string" && typeof event.name === "string";
}

export class Live {
  /** `changed` is called with the gate at which the run is held, or null. */
  constructor(emulator, changed) {
    this.changed = changed;
    this.rest = "";
    this.clear();
    const decoder = new TextDecoder();
    emulator.add_listener("virtio-console2-output-bytes", (bytes) => {
      const lines = (this.rest + decoder.decode(bytes, { stream: true })).split("\n");
      this.rest = lines.pop();
      const events = lines.flatMap((line) => {
        try {
          return [JSON.parse(line)];
        } catch {
          return [];
        }
      });
      events.filter(isEvent).forEach((event) => this.take(event));
      if (events.length) this.show();
    });
  }

  clear() {
    Object.assign(this, { id: "", lanes: [], count: 0, gate: null, rest: "" });
    byId("run").hidden = true;
    byId("stages").replaceChildren(...Array.from({ length: STAGES }, (_, n) =>
      make("li", { title: t(`stage${n + 1}`) }, make("b", {}, String(n + 1)), " ", make("span", {}, t(`stage${n + 1}`)))));
    byId("marks").replaceChildren();
    byId("latest").textContent = "";
    this.changed(null);
  }

  take(event) {
    if (event.id !== this.id) {
      this.clear();
      this.id = event.id;
    }
    if (event.kind === "gate") this.gate = event;
    else if (this.gate && (event.name === OPENED || event.pid === this.gate.pid)) this.gate = null;
    if (event.actor === HELPER || event.kind === "gate") return;
    const box = byId("stages").children[event.stage - 1];
    if (box && event.kind === "begin") box.className = "on";
    if (box && event.kind === "end") box.className = event.ret ? "failed" : "done";
    this.latest = event;
    this.mark(event);
  }

  mark(event) {
    const picture = byId("marks"), x = NAME + STEP * this.count, y = this.lane(event.actor);
    this.count += 1;
    if (event.kind === "message" && typeof event.args?.to === "string") {
      picture.append(draw("path", { d: `M${x} ${y}V${this.lane(event.args.to)}`, class: "message" }));
    }
    const place = event.kind === "begin" || event.kind === "end";
    const shape = place
      ? draw("path", { d: `M${x} ${y - 6}v12`, class: "edge" })
      : draw("circle", { cx: x, cy: y, r: 2.5, class: event.errno ? "failed" : "" });
    const title = draw("title", {});
    title.textContent = sentence(event);
    shape.append(title);
    picture.append(shape);
  }

  lane(actor) {
    if (!this.lanes.includes(actor)) {
      const text = draw("text", { x: 0, y: LANE * this.lanes.length + 14 });
      text.textContent = actor;
      byId("marks").append(text);
      this.lanes.push(actor);
    }
    return LANE * this.lanes.indexOf(actor) + 10;
  }

  show() {
    if (!this.latest) return;
    const width = NAME + STEP * this.count + 10, height = LANE * this.lanes.length + 4;
    const picture = byId("marks");
    byId("run").hidden = false;
    byId("nothing").hidden = true;
    Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }).forEach(([key, value]) => picture.setAttribute(key, value));
    picture.parentElement.scrollLeft = width;
    byId("latest").textContent = `${this.id} · ${sentence(this.latest)}`;
    this.changed(this.gate);
  }
}
