// Drawing: every event of every recording becomes one SVG group, made once; time_axis.js places it.

const data = JSON.parse(document.getElementById("data").textContent);

/** A phrase of the page in its reader's language; each {} stands for one of the values. */
const t = (text, ...values) => values.reduce((said, value) => said.replace("{}", () => value),
  Object.hasOwn(data.words, text) ? data.words[text] : text);
const byId = (id) => document.getElementById(id);

/** An HTML element with properties and children; strings become text, never markup. */
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** An SVG element with attributes and children. */
function shape(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const items = [];   // all events, recording by recording, in the order of causes: minirun.faces.show.log.order
const views = [];   // one for each recording: its lanes, bands and arrows

function readEvents() {
  data.recordings.forEach((recording, number) => {
    const mine = recording.events.map((event, index) => {
      const row = byId(`row-${number}-${index}`);
      const [time, , actor, what, result, took, why] =
        Array.from(row.cells).slice(1).map((cell) => cell.textContent);
      const said = Object.entries(event.args).flat().join(" ");
      const words = `${event.name} ${actor} ${what} ${why} ${result} ${said}`.toLowerCase();
      return { event, row, recording: number, index, time, actor, what, result, took, why, words,
               only: Boolean(data.only[number]?.includes(index)), shown: true, lane: recording.lanes.indexOf(actor) };
    });
    items.push(...mine);
  });
}

function drawRecording(recording, number) {
  const mine = items.filter((item) => item.recording === number);
  const said = mine.some((item) => item.event.to);
  const tops = recording.lanes.map((_, lane) => TOP + lane * LANE + HEAD + (said && lane ? GUTTER : 0));
  const height = tops.at(-1) + BAND + FOOT;
  const title = make("h3", { id: `recording-${number}` }, t("container {}", recording.id));
  if (recording.simulated) title.append(make("span", { className: "tag" }, "SIMULATED"));
  const names = make("div", { className: "names" });
  names.setAttribute("aria-hidden", "true");
  names.style.height = `${height}px`;
  names.style.marginBottom = `-${height}px`;
  recording.lanes.forEach((actor, lane) => {
    const name = make("span", { className: `name ${laneClass(actor)}` }, actor);
    name.style.top = `${tops[lane]}px`;
    names.append(name);
  });
  const ground = shape("g", { class: "ground", "aria-hidden": "true" });
  const svg = shape("svg", { height, role: "listbox", "aria-orientation": "horizontal",
    "aria-labelledby": `recording-${number}` }, ground);
  const view = { number, tops, height, svg, ground, bands: [], lines: [] };
  view.bands = drawBands(view, mine);
  view.lines = recording.lanes.map((_, lane) => drawLine(view, mine, lane));
  mine.forEach((item) => svg.append(drawEvent(view, item)));
  views.push(view);
  byId("lanes").append(make("div", { className: "recording" }, title,
    make("div", { className: "picture" }, names, svg)));
}

const laneClass = (actor) =>
  ["runtime", "init", "hook", "cli"].includes(actor) ? `lane-${actor}` : "lane-other";

/** The dotted line of one actor, from its first event to its last. */
function drawLine(view, mine, lane) {
  const acts = mine.filter((item) => item.lane === lane);
  const path = shape("path", { class: "lifeline" });
  view.ground.append(path);
  return { path, y: view.tops[lane] + BAND / 2, first: acts[0], last: acts.at(-1) };
}

/** The band of each stage, with its number and name above it. */
function drawBands(view, mine) {
  const begins = mine.filter((item) => item.event.kind === "begin");
  return begins.map((begin) => {
    const stage = begin.event.stage;
    const end = mine.findLast((item) => item.event.kind === "end" && item.event.stage === stage);
    const top = view.tops[begin.lane];
    const took = !end ? t("not ended") : end.result === "ok" ? end.took : t("failed after {}", end.took);
    const words = `${t(begin.event.name)} · ${took}`;
    const rect = shape("rect", { class: `band ${laneClass(begin.actor)}`, y: top, height: BAND, rx: 4 });
    const name = shape("text", { x: 22, y: 4 }, words);
    const head = shape("g", { class: `head ${laneClass(begin.actor)}` },
      shape("circle", { cx: 8, r: 8.5 }), shape("text", { x: 8, y: 4, class: "digit" }, String(stage)), name);
    view.ground.append(rect, head);
    return { begin, end, rect, head, name, words, top };
  });
}

/** One event: a group whose children are drawn around its own (0, 0), the top of its lane's band. */
function drawEvent(view, item) {
  const { event } = item;
  const top = view.tops[item.lane];
  item.bar = shape("rect", { class: "bar", y: 5, height: BAND - 10, width: 2 });
  const group = shape("g", {
    class: `event ${laneClass(item.actor)} ${event.kind}${event.failed ? " failed" : ""}`,
    id: `event-${item.recording}-${item.index}`, role: "option", tabindex: -1,
    "aria-selected": "false", "aria-label": spoken(item) }, ...signs(view, item, top));
  item.ring = shape("rect", { class: "ring", x: -4, y: 0, width: 8, height: BAND, rx: 3 });
  group.append(item.ring);
  if (!event.to && !["begin", "end"].includes(event.kind)) {
    item.name = shape("text", { class: "called away", y: BAND / 2 + 4, "aria-hidden": "true" }, event.name);
    group.append(item.name);
  }
  item.group = group;
  item.top = top;
  return group;
}

/** The shapes of an event: form tells its kind, colour only repeats its lane. */
function signs(view, item, top) {
  const found = [];
  const { kind, failed, to } = item.event;
  if (kind === "syscall") found.push(item.bar, ...(to ? arrow(view, item, top, to) : []));
  else if (kind === "exec") found.push(shape("path", { class: "solid", d: `M0 3l13 ${BAND / 2 - 3}l-13 ${BAND / 2 - 3}z` }));
  else if (kind === "note") found.push(shape("circle", { class: "open", cy: BAND + 6, r: 3 }));
  else if (kind === "gate") found.push(shape("path", { class: "open", d: `M-4 0h8l-8 ${BAND}h8z` }));
  else if (kind === "message") found.push(...arrow(view, item, top, to));
  else found.push(shape("path", { class: "edge", d: kind === "begin" ? `M4 0h-4v${BAND}h4` : `M-4 0h4v${BAND}h-4` }));
  if (item.only) found.push(shape("path", { class: "only", d: `M0 ${BAND + 1}l4.5 4.5l-4.5 4.5l-4.5 -4.5z` }));
  if (failed) found.push(shape("path", { class: "cross", d: `M-4 ${BAND + 3}l8 8m0 -8l-8 8` }));
  return found;
}

/** A message, or init's birth: an arrow to the receiver's lane; those that Figure 3 has are named. */
function arrow(view, item, top, to) {
  const lane = data.recordings[item.recording].lanes.indexOf(to);
  if (lane < 0) return [shape("circle", { class: "open", cy: BAND / 2, r: 4 })];
  const other = view.tops[lane] - top, down = other > 0;
  const [tip, back] = down ? [other, -8] : [other + BAND, 8];
  [item.upper, item.lower] = down ? [item.lane, lane] : [lane, item.lane];
  item.ends = down ? [BAND, tip] : [tip, 0];
  item.shaft = shape("path", { class: `arrow ${item.event.weight}` });
  if (item.event.weight !== "dim") item.label = shape("text", { class: "said" }, item.event.name);
  return [item.shaft, shape("path", { class: "solid", d: `M0 ${tip}l-4 ${back}h8z` }), ...(item.label ? [item.label] : [])];
}

/** What a screen reader says of an event. */
function spoken(item) {
  const took = item.took ? t("took {}", item.took) : "";
  const said = [`${item.what || item.event.name}`, item.result, took, `${item.actor}, ${t("stage {}", item.event.stage)}`,
                t("at {}", item.time), item.only ? t("only in this start") : "", item.why];
  return said.filter(Boolean).join(", ");
}
