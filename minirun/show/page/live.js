// The live page: it waits for news, and is fetched anew; the presenter has buttons.

function press(key, argument = "") {
  document.querySelectorAll("#controls button").forEach((button) => { button.disabled = true; });
  fetch("do", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key, argument }) });
}

function drawChanges() {
  const rows = data.live.changes.flatMap(({ kind, new: came, gone }) =>
    [...came.map((line) => make("ins", {}, `+ ${kind}: ${line}`)), ...gone.map((line) => make("del", {}, `− ${kind}: ${line}`))]);
  byId("changes").replaceChildren(...rows.map((row) => make("li", {}, row)));
}

function startLive() {
  if (!data.live) return;
  const { stop, stage, said, over, presenter, version } = data.live;
  byId("live").hidden = false;
  byId("live-place").textContent = over ? t("the run has started its command, or is over") : stop || t("the run goes on");
  byId("live-said").textContent = said;
  byId("live-said").hidden = !said;
  drawChanges();
  document.querySelector(`.stages button[data-stage="${stage}"]`)?.classList.add("lit");
  byId("controls").hidden = !presenter || over;
  document.querySelectorAll("#controls [data-key]").forEach((button) => {
    button.disabled = !stop;
    button.addEventListener("click", () => press(button.dataset.key));
  });
  byId("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = document.activeElement?.id;  // Enter in a field "presses" the form's first button
    const field = ["until", "shell"].includes(typed) ? typed : event.submitter?.dataset.field;
    if (stop && byId(field)?.value) press(field, byId(field).value);
  });
  const latest = items.at(-1);
  choose(latest, { focus: false });
  if (over) return;
  const news = new EventSource(`news?${version}`);
  news.addEventListener("message", () => { news.close(); location.reload(); });
}
