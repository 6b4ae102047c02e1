// Search and filter: which events are marked, and which are there at all.

let query = "";

const hits = () => query ? visible().filter((item) => item.words.includes(query)) : [];

function search() {
  query = byId("search").value.trim().toLowerCase();
  items.forEach((item) => {
    const hit = query !== "" && item.words.includes(query);
    item.group.classList.toggle("hit", hit);
    item.row.classList.toggle("hit", hit);
  });
  scroller.classList.toggle("searching", query !== "");
  countHits();
}

function countHits() {
  const found = hits(), at = found.indexOf(current);
  byId("hits").textContent = !query ? "" : !found.length ? t("no hit")
    : at < 0 ? found.length === 1 ? t("{} hit", 1) : t("{} hits", found.length)
    : t("{} of {}", at + 1, found.length);
}

/** The next hit after the current event, or the one before; round at the ends. */
function goToHit(by, focus) {
  const found = hits(), all = visible();
  if (!found.length) return;
  const here = all.indexOf(current);
  const later = found.filter((item) => all.indexOf(item) > here);
  const earlier = found.filter((item) => all.indexOf(item) < here);
  choose(by > 0 ? later[0] ?? found[0] : earlier.at(-1) ?? found.at(-1), { focus });
  countHits();
}

/** Under which name the filter has an event; a stage's begin and end go with the stage alone. */
const filed = ({ kind, name }) => kind === "begin" || kind === "end" ? "" : kind === "gate" ? "gate" : name;

const hiddenStages = new Set(), hiddenNames = new Set();

function applyFilter() {
  items.forEach((item) => {
    item.shown = !hiddenStages.has(item.event.stage) && !hiddenNames.has(filed(item.event));
    item.group.classList.toggle("away", !item.shown);
    item.row.hidden = !item.shown;
  });
  layout();
  const all = visible();
  if (current && !current.shown && all.length) choose(nearest(all, current.x), { focus: false });
  const left = items.length - all.length;
  byId("filter").textContent = left ? t("Filter ({} hidden)", left) : t("Filter");
  countHits();
}

function checkbox(words, count, hidden, value) {
  const box = make("input", { type: "checkbox", checked: !hidden.has(value) });
  box.addEventListener("change", () => {
    if (box.checked) hidden.delete(value); else hidden.add(value);
    applyFilter();
  });
  return make("label", {}, box, ` ${words} `, make("small", {}, String(count)));
}

function buildFilters() {
  const tally = (of) => [...items.reduce((all, item) => all.set(of(item), (all.get(of(item)) ?? 0) + 1), new Map())];
  const stages = tally((item) => item.event.stage).sort(([a], [b]) => a - b);
  const fill = (where, boxes) => byId(where).replaceChildren(byId(where).firstElementChild, ...boxes);
  fill("filter-stages", stages.map(([stage, count]) =>
    checkbox(stage ? t("stage {}", stage) : t("outside"), count, hiddenStages, stage)));
  const names = tally((item) => filed(item.event)).filter(([name]) => name).sort(([a], [b]) => a < b ? -1 : 1);
  fill("filter-names", names.map(([name, count]) => checkbox(name, count, hiddenNames, name)));
}

function bindFilters() {
  byId("filter-all").addEventListener("click", () => checkAll("#filters", true));
  byId("filter-none").addEventListener("click", () => checkAll("#filter-names", false));
}

function checkAll(where, on) {
  document.querySelectorAll(`${where} input`).forEach((box) => { if (box.checked !== on) box.click(); });
}
