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
    const said = made("pre", "", el);
    said.setAttribute("aria-live", "polite");

    const button = (parent, text, message) => {
      const node = made("button", text, parent);
      node.type = "button";
      node.addEventListener("click", () => { wait(); model.send(message); });
      return node;
    };
    const starting = model.get("choices").map((text, n) => button(choices, text, { choice: n + 1 }));
    const others = model.get("words").map(([word, text]) => button(commands, text, { word }));
    const wait = () => [...starting, ...others].forEach((node) => { node.disabled = true; });
    const draw = () => {
      const started = model.get("started");
      starting.forEach((node) => { node.disabled = started; });
      others.forEach((node) => { node.disabled = !started; });
      said.textContent = model.get("said");
    };
    model.on("change:turn", draw);
    draw();
  },
};
