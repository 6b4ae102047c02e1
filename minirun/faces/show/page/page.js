// The page: everything is put together here, and the keys are bound.

function toggle(button, sheet) {
  byId(button).addEventListener("click", () => {
    byId(sheet).hidden = !byId(sheet).hidden;
    byId(button).setAttribute("aria-expanded", String(!byId(sheet).hidden));
  });
}

function bindTools() {
  byId("zoom-in").addEventListener("click", () => zoomBy(2));
  byId("zoom-out").addEventListener("click", () => zoomBy(0.5));
  byId("zoom-fit").addEventListener("click", () => setZoom(1));
  byId("even").addEventListener("click", () => {
    even = !even;
    byId("even").setAttribute("aria-pressed", String(even));
    layout();
    drawLegend();
    if (current) reveal(current);
  });
  bindPresenting();
  bindExport();
  bindFilters();
  toggle("filter", "filters");
  toggle("help", "keys");
  byId("search").addEventListener("input", search);
  byId("next-hit").addEventListener("click", () => goToHit(1, false));
  byId("previous-hit").addEventListener("click", () => goToHit(-1, false));
  byId("event-next").addEventListener("click", () => step(1, false));
  byId("event-previous").addEventListener("click", () => step(-1, false));
  byId("event-close").addEventListener("click", closePanel);
  scroller.addEventListener("wheel", (wheel) => {
    if (!wheel.ctrlKey) return;
    wheel.preventDefault();
    setZoom(zoom * 2 ** (-wheel.deltaY / 200), wheel.clientX - scroller.getBoundingClientRect().left);
  }, { passive: false });
  document.querySelectorAll(".stages button").forEach((button) => {
    const stage = Number(button.dataset.stage);
    button.addEventListener("click", () => goToStage(beginOf(stage), stage));
  });
  document.querySelector("main").addEventListener("click", (click) => {
    const link = click.target.closest('a[href^="#event-"]');
    const item = link && items.find((one) => `#${one.group.id}` === link.getAttribute("href"));
    if (!item) return;
    click.preventDefault();
    choose(item);
    openPanel();
  });
}

const beginOf = (stage) => items.find((item) => item.event.kind === "begin" && item.event.stage === stage);

function enableStages() {
  document.querySelectorAll(".stages button").forEach((button) => { button.disabled = !beginOf(Number(button.dataset.stage)); });
}

/** Show a stage from its first event to its last. */
function goToStage(begin, stage) {
  const mine = items.filter((item) => item.recording === begin.recording && item.event.stage === stage);
  const end = mine.findLast((item) => item.event.kind === "end") ?? mine.at(-1);
  show(begin, end);
  choose(begin);
}

const inLanes = {
  ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowUp: () => changeLane(-1), ArrowDown: () => changeLane(1),
  PageDown: () => changeStage(1), PageUp: () => changeStage(-1),
  Home: () => choose(visible()[0]), End: () => choose(visible().at(-1)), Enter: openPanel, " ": openPanel,
};
const inPanel = { ArrowRight: () => step(1, false), ArrowLeft: () => step(-1, false) };
const anywhere = {
  "+": () => zoomBy(2), "=": () => zoomBy(2), "-": () => zoomBy(0.5), 0: () => setZoom(1),
  "/": () => { byId("search").focus(); byId("search").select(); },
  n: () => goToHit(1, true), N: () => goToHit(-1, true), "?": () => byId("help").click(),
  p: beginPresenting,
};

function inSearch(key) {
  if (key.key === "Enter") goToHit(key.shiftKey ? -1 : 1, false);
  else if (key.key === "Escape") (current ?? visible()[0])?.group.focus();
  else return;
  key.preventDefault();
}

/** Escape: out of the panel first, then out of the search. */
function escape() {
  if (opened) { closePanel(); return; }
  byId("search").value = "";
  search();
}

function onKey(key) {
  if (key.ctrlKey || key.altKey || key.metaKey) return;
  if (presented >= 0 && !opened) {
    if (!inPresentation[key.key]) return;
    key.preventDefault();
    inPresentation[key.key]();
    return;
  }
  if (key.target === byId("search")) { inSearch(key); return; }
  if (key.target.closest("select, input, #controls")) return;
  if (key.key === "Escape") { escape(); return; }
  const event = key.target.closest(".event"), panel = key.target.closest("#panel");
  const pan = event && key.shiftKey && { ArrowLeft: -0.5, ArrowRight: 0.5 }[key.key];
  if (pan) scroller.scrollLeft += pan * room();
  const act = pan ? () => {} : (event && inLanes[key.key]) || (panel && inPanel[key.key]) || anywhere[key.key];
  if (!act) return;
  key.preventDefault();
  act();
}

function drawLegend() {
  const sign = (d, kind) => shape("svg", { width: 22, height: 16, viewBox: "-11 -8 22 16", "aria-hidden": "true" },
    shape("path", { class: kind, d }));
  const call = even ? t("a system call; all events are equally wide") : t("a system call, as long as it took");
  const legend = [["M-6 -6h12v12h-12z", "band", t("a stage")], ["M-2 -6h4v12h-4z", "solid", call],
    ["M-5 -6l10 6l-10 6z", "solid", t("a program is executed")], ["M0 -8V7m0 0l-4 -6m4 6l4 -6", "arrow", t("a message: FIFO, pipe or socket")],
    ["M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", "open", t("a note")], ["M-4 -4l8 8m0 -8l-8 8", "cross", t("failed")]];
  if (items.some((item) => item.only)) legend.push(["M0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z", "only", t("only in this start")]);
  if (items.some((item) => item.event.kind === "gate")) legend.push(["M-4 -7h8l-8 14h8z", "open", t("held at a gate")]);
  document.querySelector(".legend").replaceChildren(...legend.map(([d, kind, words]) => make("li", {}, sign(d, kind), words)));
}

/** Draw all recordings, from the table and the data. */
function draw() {
  items.length = views.length = 0;
  readEvents();
  scroller.replaceChildren(axis);
  data.recordings.forEach(drawRecording);
  views.forEach(listenToPointer);
  buildFilters();
  buildDiffer();
  drawLegend();
  enableStages();
}

function start() {
  document.documentElement.classList.add("scripted");
  document.querySelectorAll(".live").forEach((section) => { section.hidden = false; });
  draw();
  layout();
  current = items[0];
  current.group.setAttribute("tabindex", 0);
  bindTools();
  document.addEventListener("keydown", onKey);
  startLive();
  new ResizeObserver(() => setZoom(zoom)).observe(scroller);
}

start();
