// The live page: it is told how the run goes on, and grows; the presenter has buttons.

const framed = Boolean(data.live?.framed);  // in a notebook, whose page passes all on
let live = data.live;

function press(key, argument = "") {
  document.querySelectorAll("#controls button").forEach((button) => { button.disabled = true; });
  const asked = { key, argument };
  if (framed) parent.postMessage(asked, "*");
  else fetch("do", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });
}

function drawChanges() {
  const rows = live.changes.flatMap(({ part, new: came, gone }) =>
    [...came.map((line) => make("ins", {}, `+ ${part}: ${line}`)), ...gone.map((line) => make("del", {}, `− ${part}: ${line}`))]);
  byId("changes").replaceChildren(...rows.map((row) => make("li", {}, row)));
}

/** Show where the run is. */
function showLive() {
  const { stop, stage, said, over, recorded } = live;
  const end = recorded ? t("the recording is over") : t("the run has started its command, or is over");
  byId("live-place").textContent = over ? end : stop || t("the run goes on");
  byId("live-said").textContent = said;
  byId("live-said").hidden = !said;
  drawChanges();
  document.querySelectorAll(".stages button").forEach((button) =>
    button.classList.toggle("lit", button.dataset.stage === String(stage)));
  byId("controls").hidden = !presenter || (over && !recorded);
  document.querySelectorAll("#controls button").forEach((button) => {
    button.disabled = !stop && !(recorded && button.dataset.key === "back");
  });
}

const presenter = Boolean(data.live?.presenter);

function told(news) {
  live = news.live;
  if (news.grown) grow(news.grown);
  else if (current === followed) follow({ focus: false });
  if (news.still) showStill(news.still);
  showLive();
}

/** The picture that is printed: the program's own SVG, complete at the end. */
function showStill(text) {
  const parsed = new DOMParser().parseFromString(text, "text/html").querySelector("svg");
  if (parsed) document.querySelector(".still figure svg").replaceWith(parsed);
}

function listen() {
  if (framed) {
    document.documentElement.classList.add("framed");
    window.addEventListener("message", (message) => { if (message.source === parent) told(message.data); });
    new ResizeObserver(() => parent.postMessage({ height: document.documentElement.offsetHeight }, "*")).observe(document.body);
    parent.postMessage({ had: live.had, version: live.version }, "*");
    return;
  }
  if (live.over) return;
  const news = new EventSource(`news?${live.version}.${live.had}`);
  news.addEventListener("message", (message) => {
    told(JSON.parse(message.data));
    if (live.over) news.close();
  });
}

function startLive() {
  if (!live) return;
  byId("live").hidden = false;
  if (live.recorded) document.querySelectorAll("[data-living]").forEach((part) => { part.hidden = true; });
  document.querySelectorAll("#controls [data-key]").forEach((button) =>
    button.addEventListener("click", () => press(button.dataset.key)));
  byId("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = document.activeElement?.id;  // Enter in a field "presses" the form's first button
    const field = ["until", "shell"].includes(typed) ? typed : event.submitter?.dataset.field;
    if (live.stop && byId(field)?.value) press(field, byId(field).value);
  });
  showLive();
  follow({ focus: false });
  listen();
}
