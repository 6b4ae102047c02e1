// A question with a button for each choice; the answer goes to the kernel, which alone knows what is right.

export default {
  render({ model, el }) {
    const question = document.createElement("p");
    question.id = `question-${Math.random().toString(36).slice(2)}`;
    const group = document.createElement("div");
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-labelledby", question.id);
    const buttons = model.get("choices").map((text, n) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.setAttribute("role", "radio");
      button.addEventListener("click", () => choose(n));
      return button;
    });

    let answer = model.get("answer");
    const choose = (n) => {
      if (model.get("checked")) return;
      answer = n + 1;
      model.send({ answer });  // messages keep their order; a model's changes are put together
      draw();
    };
    const draw = () => {
      question.textContent = model.get("question");
      const checked = model.get("checked");
      buttons.forEach((button, n) => {
        button.setAttribute("aria-checked", String(answer === n + 1));
        button.tabIndex = answer === n + 1 || (!answer && n === 0) ? 0 : -1;
        button.disabled = checked;
      });
    };
    const move = (key) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[key.key];
      if (!["Tab", "Escape"].includes(key.key)) key.stopPropagation();  // not the notebook's keys
      if (!step) return;
      key.preventDefault();
      const at = (buttons.indexOf(key.target) + step + buttons.length) % buttons.length;
      buttons[at].focus();
      choose(at);
    };
    group.addEventListener("keydown", move);
    group.append(...buttons);
    el.classList.add("minirun-question");
    el.append(question, group);
    model.on("change:answer", () => { answer = model.get("answer"); draw(); });
    model.on("change:checked", draw);
    draw();
  },
};
