// A lab: its question with a button for each choice, which starts it; then buttons for the commands.

const made = (name, text, parent) => {
  const node = document.createElement(name);
  node.textContent = text;
  parent.append(node);
  return node;
};

export default {
  render({ model, el }) {
    el.classList.add("minirun-lab");
    made("h4", model.get("title"), el);
    made("p", model.get("says"), el);
    const question = made("p", model.get("question"), el);
    question.id = `lab-${Math.random().toString(36).slice(2)}`;
    const choices = made("div", "", el);
    choices.setAttribute("role", "group");
    choices.setAttribute("aria-labelledby", question.id);
    const commands = made("div", "", el);
    commands.setAttribute("role", "group");
    const labels = model.get("labels");
    const place = made("section", "", el);
    const where = made("p", "", place);
    const script = made("pre", "", place);
    script.className = "script";
    const form = made("section", "", place);
    const label = made("label", labels.mend, form);
    const box = made("textarea", "", form);
    box.id = `${question.id}-mend`;
    label.htmlFor = box.id;
    Object.assign(box, { rows: 3, spellcheck: false });
    const said = made("pre", "", el);
    said.className = "said";
    said.setAttribute("aria-live", "polite");

    const button = (parent, text, message) => {
      const node = made("button", text, parent);
      node.type = "button";
      node.addEventListener("click", () => { wait(); model.send(message); });
      return node;
    };
    const starting = model.get("choices").map((text, n) => button(choices, text, { choice: n + 1 }));
    const others = model.get("words").map(([word, text]) => button(commands, text, { word }));
    const run = made("button", labels.button_mend, form);
    run.type = "button";
    const mend = () => {
      if (run.disabled || !box.value.trim()) return;
      wait();
      model.send({ mend: box.value });
    };
    run.addEventListener("click", mend);
    box.addEventListener("keydown", (event) => {
      event.stopPropagation();  // the notebook has keys of its own
      if (event.key === "Enter" && event.ctrlKey) mend();
    });
    const wait = () => [...starting, ...others, run].forEach((node) => { node.disabled = true; });
    const draw = () => {
      const started = model.get("started");
      starting.forEach((node) => { node.disabled = started; });
      [...others, run].forEach((node) => { node.disabled = !started; });
      place.hidden = !started;
      where.textContent = labels.place.replace("{folder}", model.get("folder"));
      script.textContent = model.get("script");
      said.textContent = model.get("said");
    };
    model.on("change:turn", draw);
    draw();
  },
};
