// The page of a stepped run, in a frame: messages go from the kernel to the page, keys from the page to the kernel.

const HIGHEST = 0.85;  // of the window

export default {
  render({ model, el }) {
    const view = Math.random().toString(36).slice(2);
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts allow-forms allow-downloads");
    frame.title = "minirun";
    frame.style.cssText = "display: block; width: 100%; height: 30rem; border: 0; border-radius: 6px;";
    const dark = document.body.dataset.jpThemeLight === "false";
    frame.style.colorScheme = dark ? "dark" : "light";

    const told = (content) => {
      if (content.page && content.view === view) frame.srcdoc = content.page;
      else if (content.news && (content.view ?? view) === view) frame.contentWindow?.postMessage(content.news, "*");
    };
    const heard = (message) => {
      if (message.source !== frame.contentWindow) return;
      const { height, had, version, key, argument } = message.data;
      if (height) frame.style.height = `${Math.min(height, HIGHEST * innerHeight)}px`;
      else if (key) model.send({ key, argument });
      else if (had !== undefined) model.send({ view, had, version });
    };
    model.on("msg:custom", told);
    window.addEventListener("message", heard);
    el.append(frame);
    model.send({ view, open: true });
    return () => {
      model.off("msg:custom", told);
      window.removeEventListener("message", heard);
    };
  },
};
