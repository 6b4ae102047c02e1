// The tab at the foot of a lesson's page: index.html?frame. The page sends the commands of a block,
// and is told if they are still at work. Only a page of the same origin is listened to.

const FOLDER = " cd /opt/minirun; clear";  // where a lesson's commands begin; the blank: no history

export const framed = new URLSearchParams(location.search).has("frame") && window.parent !== window;

/** Put the machine where a lesson begins. */
export function begin(terminal) {
  if (framed) terminal.run(FOLDER);
}

export function joinHost(tab) {
  if (!framed) return;
  document.documentElement.classList.add("framed");
  const tell = (message) => window.parent.postMessage(message, location.origin);
  window.addEventListener("message", ({ origin, source, data }) => {
    if (origin !== location.origin || source !== window.parent) return;
    if (typeof data?.run === "string") tab.terminal.run(data.run);
    if (data?.reset === true) tab.reset();
  });
  tab.terminal.listener = (busy) => tell({ busy });
  tell({ ready: true });
}
