// What the page tells its reader: how far it is, what went wrong, what was measured.

export const byId = (id) => document.getElementById(id);
export const since = (from) => `${((performance.now() - from) / 1000).toFixed(1)} s`;
export const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** What goes wrong is said in words for the reader of the page. */
export class Trouble extends Error {}

export function make(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Say how far the page is; "" if it is ready. */
export function say(text) {
  byId("progress").textContent = text;
  byId("progress").hidden = !text;
}

/** Say what is wrong. `mend`: a reset can help, and is offered. */
export function fail(text, { mend = false } = {}) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = false;
  byId("mend").hidden = !mend;
  say("");
}

export function allIsWell() {
  byId("trouble").hidden = true;
  byId("mend").hidden = true;
}

/** Write one measured figure into the footer. */
export function measured(name, text) {
  const known = [...byId("measured").children].find((row) => row.dataset.name === name);
  const row = known ?? document.createElement("div");
  row.dataset.name = name;
  row.replaceChildren(make("dt", {}, `${name}:`), make("dd", {}, text));
  if (!known) byId("measured").append(row);
}
