// Events: which is the current one, how one moves between them, and the panel that explains one.

let current = null, followed = null, opened = false;
const visible = () => items.filter((item) => item.shown);

/** The last thing that was done; where a run is held it is what the process at the gate did before. */
function latest() {
  const all = visible(), acts = all.filter((item) => item.event.kind !== "gate" && item.actor !== "step");
  const gate = live.stop && !live.recorded ? all.findLast((item) => item.event.kind === "gate") : null;
  const own = gate && acts.findLast((item) => item.event.pid === gate.event.pid && item.index < gate.index);
  return own ?? acts.at(-1) ?? all.at(-1);
}

/** Go to the last event, and to every later one as long as the reader stays there. */
function follow(options) {
  followed = latest();
  choose(followed, options);
}

/** Make `item` the current event: the one that Tab reaches and the arrows go on from. */
function choose(item, { focus = true } = {}) {
  if (!item) return;
  if (current) {
    current.group.setAttribute("tabindex", -1);
    current.group.setAttribute("aria-selected", "false");
    current.row.classList.remove("current");
  }
  current = item;
  item.group.setAttribute("tabindex", 0);
  item.group.setAttribute("aria-selected", "true");
  item.row.classList.add("current");
  reveal(item);
  if (focus) item.group.focus({ preventScroll: true });
  if (focus || opened) uncover(item);
  hint(item);
  if (opened) fillPanel(item);
}

function hint(item) {
  byId("hint").textContent = [item.time, item.actor, item.what, item.result, item.took].filter(Boolean).join("  ");
}

/** The event `by` further on, among those that the filter shows. */
function step(by, focus = true) {
  const all = visible();
  choose(all[Math.min(all.length - 1, Math.max(0, all.indexOf(current) + by))], { focus });
}

/** The nearest event in the next lane up or down, in the next recording where this one ends. */
function changeLane(by) {
  const lanes = new Map();
  for (const item of visible()) {
    const key = item.recording * 100 + item.lane;
    if (!lanes.has(key)) lanes.set(key, []);
    lanes.get(key).push(item);
  }
  const keys = [...lanes.keys()].sort((a, b) => a - b);
  const lane = lanes.get(keys[keys.indexOf(current.recording * 100 + current.lane) + by]);
  if (lane) choose(nearest(lane, current.x));
}

const nearest = (among, at) => among.reduce((best, item) => distance(item, at) < distance(best, at) ? item : best);
const distance = (item, at) => at < item.x ? item.x - at : at > item.end ? at - item.end : 0;

/** The first event of the stage after, or before, the current one. */
function changeStage(by) {
  const starts = visible().filter((item) => item.event.kind === "begin");
  const at = visible().indexOf(current), order = (item) => visible().indexOf(item);
  choose(by > 0 ? starts.find((item) => order(item) > at) : starts.findLast((item) => order(item) < at));
}

function openPanel() {
  opened = true;
  byId("panel").hidden = false;
  fillPanel(current);
  uncover(current);
  byId("panel").focus({ preventScroll: true });
}

function closePanel() {
  opened = false;
  byId("panel").hidden = true;
  current?.group.focus({ preventScroll: true });
}

function fillPanel(item) {
  const { event } = item;
  byId("event-title").replaceChildren(event.name,
    make("small", {}, `${event.kind} · ${t("{} of {}", item.index + 1, data.recordings[item.recording].events.length)}`));
  const facts = [[t("when"), `${item.time}, ${t("stage {}", event.stage)}`], [t("who"), `${item.actor}, pid ${event.pid}`],
    [t("what"), item.what], [t("result"), item.result], [t("took"), item.took]];
  byId("event-facts").replaceChildren(...pairs(facts));
  byId("event-arguments").replaceChildren(...pairs(Object.entries(event.args)));
  byId("event-arguments").parentElement.hidden = !byId("event-arguments").children.length;
  const why = item.why ? [make("p", { className: "why", lang: "en" }, item.why)] : [];
  byId("event-why").replaceChildren(make("h3", {}, t("Why")), ...why, ...event.topics.map(topicBox));
  byId("panel").scrollTop = 0;
}

const pairs = (rows) => rows.filter(([, value]) => value !== "").map(([key, value]) =>
  make("div", {}, make("dt", {}, key), make("dd", {}, ...(typeof value === "string" ? [value] : value))));

/** What minirun knows of a call, an error or a stage. */
function topicBox(number) {
  const topic = data.topics[number];
  const facts = pairs(Object.entries(data.parts).map(([key, head]) => [head, topic[key] ? coded(topic[key]) : ""]));
  return make("section", { className: "topic" },
    make("h4", {}, make("code", {}, topic.name), ` ${topic.title}`), make("dl", {}, ...facts));
}

/** Text in which `words between backticks` are code. */
const coded = (text) => text.split("`").map((part, n) => n % 2 ? make("code", {}, part) : part);

/** The event below the pointer, or the nearest in this lane. */
function under(view, pointer) {
  const box = view.svg.getBoundingClientRect();
  const y = pointer.clientY - box.top, at = pointer.clientX - box.left;
  const mine = visible().filter((item) => item.recording === view.number);
  const direct = mine.find((item) => item.group === pointer.target.closest?.(".event"));
  if (direct?.event.to) return direct;
  const lane = mine.filter((item) => y >= item.top - 4 && y <= item.top + BAND + 12);
  const near = lane.length ? nearest(lane, at) : null;
  return near && distance(near, at) < 24 ? near : direct ?? null;
}

let grip = null;  // where the picture is held, while it is dragged
window.addEventListener("pointerup", () => { grip = null; });

function listenToPointer(view) {
  let dragged = false;
  view.svg.addEventListener("pointermove", (pointer) => {
    const item = under(view, pointer);
    if (item && !grip) hint(item);
    if (grip) scroller.scrollLeft = grip.scroll - (pointer.clientX - grip.x);
    if (grip && Math.abs(pointer.clientX - grip.x) > 4) dragged = true;
  });
  view.svg.addEventListener("pointerdown", (pointer) => {
    if (pointer.button === 0 && pointer.pointerType === "mouse") {
      grip = { x: pointer.clientX, scroll: scroller.scrollLeft };
      dragged = false;
      pointer.preventDefault();
    }
  });
  view.svg.addEventListener("click", (pointer) => {
    const item = under(view, pointer);
    if (!item || dragged) return;
    choose(item);
    openPanel();
  });
}
