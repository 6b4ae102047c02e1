// Before and after: two snapshots of a container, and what is in only one of them.

const HEADS = { namespaces: t("Namespaces"), mounts: t("Mounts"), devices: t("Device rules"), files: t("Files"),
                processes: t("Processes") };

/** "5:begin" in words. */
function moment(at) {
  const [stage, edge] = at.split(":");
  return edge === "begin" ? t("before stage {} ({})", stage, at) : t("after stage {} ({})", stage, at);
}

function buildDiffer() {
  const taken = data.recordings.filter((recording) => recording.snapshots.at.length);
  byId("differ").replaceChildren();
  if (data.recordings.every((recording) => recording.observed)) {
    byId("differ").append(make("p", {}, t("This start was observed: strace sees system calls, and takes no snapshots.")));
    return;
  }
  if (!taken.length) {
    byId("differ").append(make("p", {}, t("This was recorded without snapshots."), " ", make("code", {}, "minirun run --snapshots"),
      " ", t("takes one at the beginning and the end of each stage; then this place shows what a stage added and removed.")));
    return;
  }
  const whose = select(t("Container"), taken.map((recording, n) => [n, recording.id]));
  const before = select(t("Before"), []), after = select(t("After"), []);
  const all = make("input", { type: "checkbox" });
  const result = make("div", { className: "parts" });
  result.setAttribute("aria-live", "polite");
  const choices = make("div", { className: "tools" }, before.label, after.label,
    make("label", {}, all, " ", t("show what is the same, too")));
  if (taken.length > 1) choices.prepend(whose.label);
  byId("differ").append(choices, result);
  const update = () => compare(taken[whose.list.value].snapshots, before.list.value, after.list.value, all.checked, result);
  const fill = () => { fillMoments(taken[whose.list.value].snapshots.at, before.list, after.list); update(); };
  whose.list.addEventListener("change", fill);
  [before.list, after.list, all].forEach((input) => input.addEventListener("change", update));
  fill();
}

function select(words, options) {
  const list = make("select", {}, ...options.map(([value, text]) => make("option", { value }, text)));
  return { list, label: make("label", {}, `${words} `, list) };
}

/** Offer the moments; at first, those around stage 5, where the GPUs come in. */
function fillMoments(at, before, after) {
  for (const list of [before, after])
    list.replaceChildren(...at.map((name, n) => make("option", { value: n }, moment(name))));
  before.value = Math.max(0, at.indexOf("5:begin"));
  after.value = at.includes("5:end") ? at.indexOf("5:end") : at.length - 1;
}

function compare(snapshots, before, after, all, result) {
  const there = (mask, n) => mask >> n & 1;
  result.replaceChildren(...Object.entries(snapshots.parts).map(([part, lines]) => {
    const gone = lines.filter(([, mask]) => there(mask, before) && !there(mask, after));
    const come = lines.filter(([, mask]) => !there(mask, before) && there(mask, after));
    const same = lines.filter(([, mask]) => there(mask, before) && there(mask, after));
    const count = gone.length || come.length ? `+${come.length} −${gone.length}` : t("the same");
    const shown = lines.filter((line) => gone.includes(line) || come.includes(line) || (all && same.includes(line)));
    const rows = shown.map((line) => row(line[0], gone.includes(line) ? "−" : come.includes(line) ? "+" : " "));
    const title = make("summary", {}, HEADS[part] ?? part, make("small", {}, count));
    return make("details", { open: part !== "processes" && shown.length > 0, className: part }, title,
                make("ul", {}, ...rows));
  }));
}

function row(line, sign) {
  const said = { "+": t("added"), "−": t("removed") }[sign];
  const mark = make("span", { className: "sign" }, sign);
  mark.setAttribute("aria-hidden", "true");
  const words = make(sign === "+" ? "ins" : sign === "−" ? "del" : "span", {}, line);
  return make("li", {}, mark, ...(said ? [make("span", { className: "spoken" }, `${said} `)] : []), words);
}
