// The axis of time: where everything lies at the present zoom. The picture scrolls in #lanes; only it is wide.

const scroller = byId("lanes");
let zoom = 1, even = true, width = 0, ranks = [], count = 0;
const axis = shape("svg", { class: "axis", height: 22, "aria-hidden": "true" });

/** Nanoseconds to a place from 0 to 1: linear between the knots. */
function place(t) {
  const { knots } = data;
  let low = 1, high = knots.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (knots[middle][0] < t) low = middle + 1; else high = middle;
  }
  const [t0, p0] = knots[low - 1], [t1, p1] = knots[low];
  return p0 + (p1 - p0) * Math.min(1, Math.max(0, (t - t0) / (t1 - t0 || 1)));
}

/** Even steps: how many of the events that are shown come before each step. */
function rankSteps() {
  const shown = [];
  items.forEach((item) => { shown[item.event.step] = item.shown; });
  count = 0;
  ranks = shown.map((one) => one ? count++ : count);
}

const across = (place) => LEFT + place * (width - LEFT - RIGHT);
const x = (t) => across(place(t));
const placeOf = (item) => even ? ranks[item.event.step] / Math.max(1, count - 1) : place(item.event.t);
const xOf = (item) => across(placeOf(item));
const room = () => scroller.clientWidth;

function layout() {
  if (!room()) return;  // on paper: the still picture stands there instead
  rankSteps();
  width = Math.min(MOST, Math.max(room(), room() * zoom));
  axis.setAttribute("width", width);
  views.forEach((view) => {
    view.svg.setAttribute("width", width);
    layBands(view);
    view.lines.forEach((line) => {
      const ends = [line.first, line.last].map((item) => item ? xOf(item) : 0);
      line.path.setAttribute("d", `M${ends[0]} ${line.y}H${ends[1]}`);
    });
  });
  items.forEach(layEvent);
  views.forEach(layNames);
  views.forEach(layMessages);
  layTicks();
  byId("zoom").textContent = `${Math.round(zoom * 100)} %`;
}

/** A call lies from where it began, as long as it took; in even steps each event is a mark. */
function layEvent(item) {
  const { t, began, kind } = item.event;
  const long = kind === "syscall" && !even ? Math.max(2, x(t) - x(t - began)) : 2;
  item.x = kind === "syscall" && !even ? x(t - began) : xOf(item);
  item.end = item.x + (kind === "exec" ? 13 : long);
  item.group.setAttribute("transform", `translate(${item.x.toFixed(1)} ${item.top})`);
  item.bar.setAttribute("width", long.toFixed(1));
  if (kind === "syscall") item.ring.setAttribute("width", (long + 8).toFixed(1));
}

function layBands(view) {
  const heads = new Map();  // of each lane, where the next number has room
  view.bands.forEach((band) => {
    const from = xOf(band.begin), to = band.end ? xOf(band.end) : across(1);
    band.rect.setAttribute("x", from);
    band.rect.setAttribute("width", Math.max(3, to - from));
    const head = Math.max(from, heads.get(band.top) ?? from);
    heads.set(band.top, head + DIGIT);
    band.head.setAttribute("transform", `translate(${head} ${band.top - 13})`);
    const next = view.bands.filter((other) => other.top === band.top && xOf(other.begin) > from);
    const space = Math.min(...next.map((other) => xOf(other.begin)), width) - head - 28;
    band.wide ??= band.name.getComputedTextLength();
    const letters = Math.floor(band.words.length * 0.9 * space / band.wide);
    band.name.textContent = band.wide <= space ? band.words : letters > 6 ? `${band.words.slice(0, letters - 1)}…` : "";
  });
}

/** Names of events, beside their bars, where there is room up to the next event of the lane. */
function layNames(view) {
  view.tops.forEach((_, lane) => {
    const mine = items.filter((item) => item.recording === view.number && item.lane === lane && item.shown);
    mine.forEach((item, n) => {
      if (!item.name) return;
      const space = (mine[n + 1]?.x ?? width - 4) - item.end - 8;
      item.nameWide ??= item.event.name.length * LETTER;
      item.name.classList.toggle("away", item.nameWide > space);
      item.name.setAttribute("x", item.end - item.x + 4);
    });
  });
}

/** Round times, at least 90 pixels apart; in even steps, the number of the event instead. */
function layTicks() {
  axis.replaceChildren();
  views.forEach((view) => view.ground.querySelectorAll(".tick").forEach((old) => old.remove()));
  if (even) { layCounts(); return; }
  const { knots } = data, middles = data.breaks.map(([t0, t1]) => (x(t0) + x(t1)) / 2);
  for (let part = 0; part + 1 < knots.length; part += 2) {
    const [t0, p0] = knots[part], [t1, p1] = knots[part + 1];
    const step = roundUp(90 * (t1 - t0) / ((p1 - p0) * (width - LEFT - RIGHT) || 1));
    for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step)
      if (middles.every((middle) => Math.abs(middle - x(t)) > 72)) tick(x(t), milliseconds(t));
  }
  data.breaks.forEach(([t0, t1], n) => tick(middles[n], `… ${length(t1 - t0)} …`, "tick break"));
}

function layCounts() {
  const step = roundUp(90 * count / width);
  for (let i = 0; i < count; i += step) tick(across(i / Math.max(1, count - 1)), t("step {}", i + 1));
}

function tick(at, words, kind = "tick") {
  axis.append(shape("text", { x: at, y: 14, class: kind }, words));
  views.forEach((view) => view.ground.prepend(shape("path", { class: kind, d: `M${at} 0V${view.height}` })));
}

function roundUp(least) {
  for (let step = 1; ; step *= 10) for (const factor of [1, 2, 5]) if (step * factor >= least) return step * factor;
}

const milliseconds = (t) => `${Number((t / 1e6).toPrecision(12))} ms`;
const length = (t) => t < 1e6 ? `${Math.floor(t / 1e3)}µs` : t < 1e9 ? `${(t / 1e6).toFixed(1)}ms` : `${(t / 1e9).toFixed(1)}s`;

/** Zoom, keeping the place below `anchor` (pixels from the left edge of the view) where it is. */
function setZoom(next, anchor = room() / 2) {
  if (!room()) return;
  const here = (scroller.scrollLeft + anchor - LEFT) / (width - LEFT - RIGHT);
  zoom = Math.min(MOST / room(), Math.max(1, next));
  layout();
  scroller.scrollLeft = LEFT + here * (width - LEFT - RIGHT) - anchor;
}

/** Zoom around the current event, where it can be seen. */
function zoomBy(factor) {
  const at = current ? current.x - scroller.scrollLeft : -1;
  setZoom(zoom * factor, at > LEFT - 4 && at < room() ? at : room() / 2);
}

/** Fill the view with what lies between two events. */
function show(first, last) {
  const wide = Math.max(1e-6, placeOf(last) - placeOf(first));
  zoom = Math.min(MOST / room(), Math.max(1, 0.8 * (room() - LEFT) / (wide * room())));
  layout();
  scroller.scrollLeft = (xOf(first) + xOf(last)) / 2 - (room() + LEFT) / 2;
}

/** Scroll so far that an event can be seen. */
function reveal(item) {
  const at = item.x - scroller.scrollLeft;
  if (at < LEFT - 4 || at > room() - 20) scroller.scrollLeft = item.x - (room() + LEFT) / 2;
}

/** Scroll the page so that an event's lane is not below the panel. */
function uncover(item) {
  const box = item.group.getBoundingClientRect(), floor = byId("panel").hidden ? innerHeight : innerHeight * 0.55;
  if (box.bottom > floor - 24) scrollBy(0, box.bottom - floor + 24);
  else if (box.top < 40) scrollBy(0, box.top - 40);
}
