// What other pages of this site have typed here. The tab at the foot of a lesson's page is
// index.html?frame: the page sends the commands of a block, and is told if they are still at work.
// Cells of its notebooks (%%minirun: minirun/faces/api/course/tab.py) come to each tab that is no
// frame, by a channel. Only what is of the same origin is listened to.

const CHANNEL = "minirun-tab";
const FOLDER = " cd /opt/minirun; clear";  // where a lesson's commands begin; the blank: no history

export const framed = new URLSearchParams(location.search).has("frame") && window.parent !== window;

/** Put the machine where a lesson begins. */
export function begin(terminal) {
  if (framed) terminal.run(FOLDER);
}

export function joinHost(tab) {
  if (!framed) {
    new BroadcastChannel(CHANNEL).addEventListener("message", ({ data }) => {
      if (typeof data?.run === "string") tab.terminal.run(data.run);
    });
    return;
  }
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
