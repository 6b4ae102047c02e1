// Each command block of a lesson gets a button: its commands run in the machine of tab/, which opens
// at the foot of the page and keeps its state from block to block. site.py says where it is, or why
// a lesson cannot run there.

const WORDS = {
  en: {
    run: "run in the tab",
    not: "not in the tab: {0}",
    server: "the machine needs a web server: python3 -m http.server -d build/site",
    title: "minirun in this page: a real Linux in an emulator, slow, and real",
    busy: "at work …",
    loading: "the machine comes …",
    reset: "reset",
    about: "put the machine back to its beginning: what is in it is lost",
    hide: "hide",
    show: "show the machine",
  },
  ko: {
    run: "탭에서 실행",
    not: "탭에서는 안 된다: {0}",
    server: "머신에는 웹 서버가 필요하다: python3 -m http.server -d build/site",
    title: "이 페이지 안의 minirun: 에뮬레이터 안의 진짜 Linux, 느리지만 진짜다",
    busy: "실행 중 …",
    loading: "머신을 받는 중 …",
    reset: "리셋",
    about: "머신을 처음 상태로 되돌린다. 안에 있던 것은 사라진다",
    hide: "숨기기",
    show: "머신 보기",
  },
};

function make(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** The machine at the foot of the page; it is loaded at its first use. */
class Machine {
  constructor(address, words) {
    this.words = words;
    this.ready = false;
    this.waiting = [];
    this.frame = make("iframe", { title: words.title, src: address });
    this.state = make("span", { className: "state", role: "status" }, words.loading);
    const button = (text, action, title = "") => {
      const made = make("button", { type: "button", title }, text);
      made.addEventListener("click", action);
      return made;
    };
    this.hider = button(words.hide, () => this.show(this.box.classList.contains("hidden")));
    const reset = button(words.reset, () => this.send({ reset: true }), words.about);
    const bar = make("div", { className: "bar" }, make("b", {}, words.title), this.state, reset, this.hider);
    this.box = make("aside", { id: "machine", ariaLabel: words.title }, bar, this.frame);
    document.body.append(this.box);
    window.addEventListener("message", (message) => this.hear(message));
    this.show(true);
  }

  /** A message counts if it comes from the frame, and the frame is still this site's. */
  hear({ origin, source, data }) {
    if (origin !== location.origin || source !== this.frame.contentWindow) return;
    if (data?.ready === true) {
      this.ready = true;
      this.waiting.splice(0).forEach((message) => this.send(message));
    }
    if (typeof data?.busy === "boolean") this.state.textContent = data.busy ? this.words.busy : "";
  }

  send(message) {
    if (this.ready) this.frame.contentWindow.postMessage(message, location.origin);
    else this.waiting.push(message);
  }

  show(yes) {
    this.box.classList.toggle("hidden", !yes);
    this.hider.textContent = yes ? this.words.hide : this.words.show;
    document.body.classList.toggle("with-machine", yes);
  }
}

function addButtons(note) {
  const language = document.documentElement.lang === "ko" ? "ko" : "en", words = WORDS[language];
  const without = JSON.parse(note.dataset.without), all = without.length === 0;
  const whyNot = (number) => {
    if (location.protocol === "file:") return words.server;
    return all || without.includes(number) ? note.dataset.why : "";
  };
  let machine = null;
  for (const [index, block] of document.querySelectorAll("article .highlight-shell").entries()) {
    const why = whyNot(index + 1);
    if (why) {
      block.after(make("p", { className: "in-tab" }, words.not.replace("{0}", why)));
      continue;
    }
    const button = make("button", { type: "button", className: "in-tab" }, words.run);
    button.addEventListener("click", () => {
      machine ??= new Machine(`${note.dataset.machine}?frame&lang=${language}`, words);
      machine.show(true);
      machine.send({ run: block.querySelector("pre").textContent });
    });
    block.after(button);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const note = document.getElementById("in-tab");
  if (note) addButtons(note);
});
