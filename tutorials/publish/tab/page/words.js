// What the page says, in English and in Korean: ?lang=ko, or the browser's own language.

const WORDS = {
  en: {
    title: "minirun in this tab",
    about: "A real Linux in an emulator: slow, and real. Only the GPUs are SIMULATED, and each place says so. The image ubuntu is Debian for i386 under that name: minirun images.",
    terminal: "Terminal",
    picture: "The newest run, in lanes",
    nothing: "A picture comes with the first minirun run. The machine itself draws it, when it has time.",
    licences: "Parts of this machine, and their licences",
    begins: "The machine comes …",
    coming: "The machine comes: {0} of {1}",
    goesOn: "The machine goes on …",
    fetched: "fetched",
    toPrompt: "to the prompt",
    afterDownload: "of these, after the download",
    download: "download to the prompt",
    noWasm: "this browser has no WebAssembly, or it is turned off: the machine cannot run",
    noMemory: "this browser does not give {0} MiB of memory to the machine: close other tabs, and load the page anew",
    notFetched: "{0} cannot be fetched ({1}): is the web server there?",
    noPart: "a part of the machine's disk is missing: {0}",
    hung: "the machine has executed nothing for {0} s: it hangs. Load the page anew; what was in it is lost",
    panic: "the machine's kernel has stopped: {0}. Load the page anew",
    stopped: "the machine has stopped: {0}. Load the page anew",
    notOne: "the saved machine is damaged: it does not begin as one",
    otherVersion: "the saved machine is of another version: {0} {1}, and not {2}. Load the page anew",
    damaged: "the saved machine is damaged: {0} bytes came, of {1}. Load the page anew",
  },
  ko: {
    title: "이 탭 안의 minirun",
    about: "에뮬레이터 안의 진짜 Linux: 느리지만 진짜다. GPU만 SIMULATED이고, 나타나는 곳마다 그렇게 적혀 있다. 이미지 ubuntu는 그 이름을 쓰는 i386용 Debian이다: minirun images.",
    terminal: "터미널",
    picture: "가장 새로운 실행",
    nothing: "첫 minirun run과 함께 그림이 나온다. 시간이 날 때 머신이 직접 그린다.",
    licences: "이 머신을 이루는 것과 그 라이선스",
    begins: "머신을 받는 중 …",
    coming: "머신을 받는 중: {1} 가운데 {0}",
    goesOn: "머신이 이어서 실행된다 …",
    fetched: "받은 양",
    toPrompt: "프롬프트까지",
    afterDownload: "그 가운데 받은 다음",
    download: "프롬프트까지 받은 양",
    noWasm: "이 브라우저에는 WebAssembly가 없거나 꺼져 있다: 머신을 실행할 수 없다",
    noMemory: "이 브라우저가 머신에 메모리 {0} MiB를 주지 않는다: 다른 탭을 닫고 페이지를 다시 연다",
    notFetched: "{0}을(를) 받을 수 없다 ({1}): 웹 서버가 있는지 확인한다",
    noPart: "머신 디스크의 일부가 없다: {0}",
    hung: "머신이 {0}초 동안 아무것도 실행하지 않았다: 멈췄다. 페이지를 다시 연다. 안에 있던 것은 사라진다",
    panic: "머신의 커널이 멈췄다: {0}. 페이지를 다시 연다",
    stopped: "머신이 멈췄다: {0}. 페이지를 다시 연다",
    notOne: "저장된 머신이 손상되었다: 시작 부분이 다르다",
    otherVersion: "저장된 머신의 버전이 다르다: {0} {1}, 필요한 것은 {2}. 페이지를 다시 연다",
    damaged: "저장된 머신이 손상되었다: {1}바이트 가운데 {0}바이트가 왔다. 페이지를 다시 연다",
  },
};
const asked = new URLSearchParams(location.search).get("lang") ?? navigator.language;
export const language = asked.startsWith("ko") ? "ko" : "en";

/** Return a text; {0}, {1} … stand for the values. */
export function t(key, ...values) {
  return WORDS[language][key].replace(/\{(\d)\}/g, (_, number) => values[number]);
}

/** Put the page into the reader's language. */
export function translate() {
  document.documentElement.lang = language;
  document.title = t("title");
  document.querySelectorAll("[data-word]").forEach((each) => { each.textContent = t(each.dataset.word); });
}
