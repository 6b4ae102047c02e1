// A run that goes on: what the page lacks is added to its data and its table, and all is drawn anew.

function addRow(index, kind, words) {
  const link = make("a", { href: `#event-0-${index}` }, String(index + 1));
  const head = make("th", { scope: "row" }, link);
  const className = kind === "begin" || kind === "end" ? kind : "";
  return make("tr", { id: `row-0-${index}`, className }, head, ...words.map((text) => make("td", {}, text)));
}

/** Put what is new into the page. `grown`: minirun.faces.show.page.growing.news. */
function take(grown) {
  const recording = data.recordings[0], { from } = grown;
  recording.events.splice(from, Infinity, ...grown.events);
  for (const key of ["lanes", "simulated", "snapshots", "milestones"]) recording[key] = grown[key];
  Object.assign(data, { knots: grown.knots, breaks: grown.breaks, topics: grown.topics });
  const body = byId("table").querySelector("tbody");
  while (body.rows.length > from) body.lastElementChild.remove();
  body.append(...grown.rows.map((words, n) => addRow(from + n, grown.events[n].kind, words)));
}

function showFacts({ facts, stages, banner }) {
  const name = make("b", {}, data.recordings[0].id);
  document.querySelector(".facts li").replaceChildren(name, `: ${facts}`);
  byId("caption-0").textContent = `${data.recordings[0].id}: ${facts}`;
  document.querySelectorAll(".stages .who").forEach((who, n) => { who.textContent = stages[n]; });
  if (!banner || document.querySelector(".banner")) return;
  const said = make("p", { className: "banner" }, banner);
  said.setAttribute("role", "note");
  document.querySelector("header").append(said);
}

/** Draw anew, and keep what the reader looks at; who is at the latest event stays at the latest. */
function grow(grown) {
  const { index } = current, follows = current === followed;
  const focus = Boolean(document.activeElement?.closest(".event")), left = scroller.scrollLeft;
  current.row.classList.remove("current");
  take(grown);
  showFacts(grown);
  draw();
  applyFilter();
  current = null;
  const all = visible();
  if (follows) follow({ focus });
  else choose(items.find((item) => item.index === index) ?? all.at(-1), { focus });
  if (!follows) scroller.scrollLeft = left;
  search();
  if (presented >= 0) present(presented);
}
