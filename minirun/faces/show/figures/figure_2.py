"""Figure 2 of what a recording tells: from config.json to the arguments of nvidia-container-cli.

On the left what stage 4 read: the environment of config.json, and the state on its standard input;
on the right the argument list that it made of them. A line leads from a variable to its words.
"""

from minirun.core.errors import StateError
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log.event_row import clean
from minirun.faces.show.log.recording import Recording
from minirun.gpu.asked.request import CAPABILITIES

_ROW = 20
_RIGHT = 560
_LETTERS = 58
"""What fits into a column."""
_LETTER = 7.4
_CODE = 'font-family="monospace"'
_BOLD = 'font-weight="700"'
_OPTIONS = {
    "NVIDIA_VISIBLE_DEVICES": ("--device",),
    "NVIDIA_DRIVER_CAPABILITIES": tuple(f"--{name}" for name in CAPABILITIES),
    "NVIDIA_MIG_CONFIG_DEVICES": ("--mig-config",),
    "NVIDIA_MIG_MONITOR_DEVICES": ("--mig-monitor",),
    "NVIDIA_IMEX_CHANNELS": ("--imex-channel",),
    "state.pid": ("--pid",),
}
"""What is read → the options that come of it. NVIDIA_REQUIRE_…: --require."""


def document(recordings: list[Recording]) -> str:
    """Return the figure of the first recording, as an SVG file.

    Raises StateError if its stage 4 read nothing.
    """
    events = [e for each in recordings[:1] for e in each.events if e.stage == 4]
    asked = next((e.args for e in events if e.name == "environment"), None)
    told = next((e.args.get("argv") for e in events if e.name == "nvidia-container-cli"), None)
    if asked is None or not isinstance(told, list):
        raise StateError("stage 4 of this recording read no config.json", "replay gpus-0-1")
    argv = [clean(str(word)) for word in told]
    read = {clean(name): clean(str(value)) for name, value in asked.items()}
    pid = next((word.partition("=")[2] for word in argv if word.startswith("--pid=")), "")
    left = [*(f"{name}={value}" for name, value in read.items()), f"state.pid={pid}"]
    rows = max(len(left), len(argv)) + 2
    parts = [
        _column(0, "config.json: process.env, and the state", left),
        _column(_RIGHT, "nvidia-container-cli", argv),
        figure_3.words(445, 14, "stage 4: the hook", f'text-anchor="middle" {_BOLD}'),
        *_lines(left, argv),
    ]
    said = f"Of {', '.join(left)} the hook makes: nvidia-container-cli {' '.join(argv)}"
    return figure_3.sheet(said, rows * _ROW, "".join(parts))


def _column(x: int, head: str, rows: list[str]) -> str:
    shown = [row if len(row) <= _LETTERS else row[: _LETTERS - 1] + "…" for row in rows]
    said = [figure_3.words(x, _y(n), row, _CODE) for n, row in enumerate(shown)]
    return figure_3.words(x, 14, head, _BOLD) + "".join(said)


def _y(row: int) -> float:
    return 14 + 1.4 * _ROW + row * _ROW


def _lines(left: list[str], argv: list[str]) -> list[str]:
    """Return a line from each row on the left to each word that comes of it."""
    found = []
    for row, said in enumerate(left):
        name, start = said.partition("=")[0], min(330, len(said) * _LETTER + 6)
        options = _OPTIONS.get(name, ("--require",) if "REQUIRE" in name else ())
        for at, word in enumerate(argv):
            if word.partition("=")[0] in options:
                y0, y1, end = _y(row) - 4, _y(at) - 4, _RIGHT - 8
                path = f"M{start:.0f} {y0:.1f}H330C430 {y0:.1f} 450 {y1:.1f} {end} {y1:.1f}"
                found.append(
                    f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".6"/>'
                )
    return found
