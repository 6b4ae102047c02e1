// Presenter's mode: one stage fills one screen, with its text; ← and → go from stage to stage.

let presented = -1;   // which of stagesOf() is on the screen; -1: the whole page is
const stagesOf = () => items.filter((item) => item.event.kind === "begin");

function present(at) {
  const begins = stagesOf();
  presented = Math.min(begins.length - 1, Math.max(0, at));
  const begin = begins[presented];
  document.documentElement.classList.add("presenting");
  byId("stage-card").hidden = false;
  document.querySelectorAll(".recording").forEach((one, n) => one.classList.toggle("aside", n !== begin.recording));
  byId("stage-title").replaceChildren(make("b", { className: "digit" }, String(begin.event.stage)), ` ${begin.actor}: ${t(begin.what)}`);
  const topic = data.topics[begin.event.topics[0]];
  byId("stage-text").replaceChildren(...coded(topic?.here ?? ""));
  byId("stage-count").textContent = t("{} of {}", presented + 1, begins.length);
  const told = data.recordings[begin.recording].milestones.filter((one) => one.stage === begin.event.stage);
  byId("stage-steps").replaceChildren(...told.map(({ what, actor }) => make("li", { className: laneClass(actor) }, what)));
  layout();
  goToStage(begin, begin.event.stage);
  numberSteps(begin.recording, told);
  byId("stage-next").focus({ preventScroll: true });
  scrollTo(0, 0);
  fitText();
}

/** The number of each milestone, below the last of its events; none at an arrow, or where it would lie on another. */
function numberSteps(recording, told) {
  document.querySelectorAll(".nth").forEach((old) => old.remove());
  const taken = [];
  told.forEach(({ events }, n) => {
    const item = items.find((one) => one.recording === recording && one.index === events.at(-1));
    if (item.shaft || taken.some(([lane, x]) => lane === item.lane && Math.abs(x - item.x) < 16)) return;
    taken.push([item.lane, item.x]);
    const y = BAND + (item.event.kind === "note" ? 21 : 16);
    item.group.append(shape("text", { class: "nth", x: 1, y, "aria-hidden": "true" }, String(n + 1)));
  });
}

const SIZES = [1.25, 1.1, 1, 0.9, 0.8];  // rem

/** Make the stage's text so small that all is on one screen; if that is not enough, it scrolls. */
function fitText() {
  const card = byId("stage-card"), over = () => document.documentElement.scrollHeight - innerHeight;
  const parts = [byId("stage-text"), byId("stage-steps")];
  parts.forEach((part) => { part.style.maxHeight = ""; });
  for (const size of SIZES) {
    card.style.fontSize = `${size}rem`;
    if (over() <= 0) return;
  }
  for (const part of parts) {
    if (over() > 0) part.style.maxHeight = `${Math.max(40, part.offsetHeight - over() - 2)}px`;
  }
}

function endPresenting() {
  presented = -1;
  document.documentElement.classList.remove("presenting");
  byId("stage-card").hidden = true;
  document.querySelectorAll(".nth").forEach((old) => old.remove());
  document.querySelectorAll(".aside").forEach((one) => one.classList.remove("aside"));
  setZoom(1);
  byId("present").focus();
}

/** Where the presenter goes on: at the stage of the current event. */
const beginPresenting = () => {
  const mine = stagesOf().findIndex((item) => item.recording === current.recording && item.event.stage === current.event.stage);
  present(Math.max(0, mine));
};

const inPresentation = {
  ArrowRight: () => present(presented + 1), PageDown: () => present(presented + 1), " ": () => present(presented + 1),
  ArrowLeft: () => present(presented - 1), PageUp: () => present(presented - 1),
  Home: () => present(0), End: () => present(stagesOf().length - 1), Escape: endPresenting, p: endPresenting,
};

function bindPresenting() {
  byId("present").addEventListener("click", beginPresenting);
  byId("stage-next").addEventListener("click", () => present(presented + 1));
  byId("stage-previous").addEventListener("click", () => present(presented - 1));
  byId("stage-close").addEventListener("click", endPresenting);
}
