// The copy for a time without a network: all parts, kept in the browser's cache, and a service worker
// (sw.js) that gives them out. tab.json is kept last, so a copy without it is not whole; a copy whose
// tab.json is not the server's is of an older version, and is removed.

import { PART } from "./machine.js";
import { byId, make, megabytes } from "./said.js";
import { t } from "./words.js";

const NAME = `minirun-tab ${new URL("./", location).pathname}`;
const ABOUT = "tab.json";
const AT_ONCE = 6;

/** Return the names of all files that a tab is made of. */
function names(about) {
  const parts = Array.from({ length: about.size / PART }, (_, n) =>
    `disk-${about.disk}/part-${n * PART}-${(n + 1) * PART}.img.zst`);
  return ["./", ...about.files, ...parts];
}

async function keep(about, text, tell) {
  await navigator.serviceWorker.register("sw.js");
  const cache = await caches.open(NAME), todo = names(about);
  let had = 0;
  const worker = async () => {
    for (let name = todo.shift(); name; name = todo.shift()) {
      const answer = await fetch(name, { cache: "no-cache" });
      if (!answer.ok) throw new Error(t("notFetched", name, answer.status));
      const data = await answer.arrayBuffer();
      await cache.put(name, new Response(data, { headers: answer.headers }));
      had += data.byteLength;
      tell(t("keeping", megabytes(had), megabytes(about.total)));
    }
  };
  const ends = Array.from({ length: AT_ONCE }, () => worker().catch((error) => {
    todo.length = 0;  // the others end, too
    return error;
  }));
  const error = (await Promise.all(ends)).find(Boolean);
  if (error) throw error;
  await cache.put(ABOUT, new Response(text, { headers: { "Content-Type": "application/json" } }));
}

/** Return in words why nothing could be kept. */
function reason(error, about) {
  const full = error.name === "QuotaExceededError";
  return full ? t("full", megabytes(about.total)) : t("notKept", error.message);
}

/** Offer to keep a copy, or say why that cannot be. `text`: tab.json as it came. */
export async function offerOffline(text) {
  try {
    await offer(text);
  } catch (error) {  // a private window may have no cache
    byId("kept").textContent = t("notKept", error.message);
  }
}

async function offer(text) {
  const about = JSON.parse(text), button = byId("keep"), note = byId("kept");
  if (!window.isSecureContext || !navigator.serviceWorker) {
    note.textContent = t("insecure");
    return;
  }
  const kept = await (await caches.match(ABOUT, { cacheName: NAME }))?.text();
  if (kept === text) {
    note.textContent = t("kept", megabytes(about.total));
    return;
  }
  if (kept !== undefined) {
    await caches.delete(NAME);
    note.textContent = t("outdated");
  }
  button.textContent = t("keep", megabytes(about.total));
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.hidden = true;
    try {
      await keep(about, text, (words) => { note.textContent = words; });
      note.textContent = t("kept", megabytes(about.total));
    } catch (error) {
      note.replaceChildren(make("span", { className: "bad" }, reason(error, about)));
      await caches.delete(NAME);
      button.hidden = false;
    }
  });
}
