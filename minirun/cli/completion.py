"""`minirun completion bash|zsh|fish`: a script that completes command lines.

It is made of the tables that the program itself works with: the commands of minirun.cli, each
command's class of flags, and help.toml, whose `arguments` say what a command is about: ID a
container, IMAGE an image. Names of containers, images and networks are asked for when Tab is
pressed.

    source <(minirun completion bash)          in ~/.bashrc, or for this shell alone
    minirun completion fish | source           in config.fish
"""

from __future__ import annotations

from typing import NamedTuple

from minirun import cli
from minirun.cli.flags import Flag, Flags
from minirun.cli.help import TEXTS
from minirun.cli.output import write
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import Settings

SHELLS = ("bash", "zsh", "fish")
_ASKS = {
    "containers": "ps -a --format '{{.Names}}'",
    "images": "images --format '{{.Repository}}:{{.Tag}}'",
    "networks": "network ls --format '{{.Name}}'",
}  # fmt: skip
"""What is completed → how minirun is asked for it."""


class Completion(Flags):
    """Print a script that completes command lines."""

    command = "completion"


class CompletionRow(NamedTuple):
    """What the script knows of one command line's beginning."""

    path: str
    """The command, such as "network create"; "" before there is one."""
    flags: dict[str, tuple[Flag, str]]
    """Name of a flag → itself, and what it is for."""
    verbs: list[str]
    """Words that may follow: commands, or the commands of a group."""
    about: str
    """What its arguments are: a key of _ASKS, or "" for files."""


def main(args: list[str], settings: Settings) -> int:
    """Print the script for one shell."""
    flags = Completion(args)
    if len(flags.args) != 1 or flags.args[0] not in SHELLS:
        what = f"invalid shell {flags.args[0]!r}" if flags.args else "completion needs a shell"
        raise UsageError(what, f"minirun completion {'|'.join(SHELLS)}", 1)
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[flags.args[0]]
    return write(made(rows()))


def rows() -> list[CompletionRow]:
    """Return a row for each command and each command of a group, by name."""
    for module in {**cli.MODULES, **dict.fromkeys(_modules_of_groups())}:
        try:
            cli.part(module, "__name__")
        except (ImportError, OSError):
            continue  # it needs Linux, or a package that is not installed
    classes = {each.command: each for each in _below(Flags) if each.command}
    classes[""] = cli.GlobalFlags
    paths = {"", *cli.COMMANDS, *(path for path in classes if path.split(" ")[0] in cli.COMMANDS)}
    same: dict[str, str] = {}
    for group, verbs in (("container", _verbs("CONTAINER")), ("system", _verbs("SYSTEM"))):
        for verb, target in verbs.items():
            paths.add(f"{group} {verb}")
            same[f"{group} {verb}"] = target if "." not in target else _SAME.get(verb, verb)
    for verb in _verbs_of_images():
        paths.add(f"image {verb}")
        same.setdefault(f"image {verb}", _IMAGES.get(verb, verb))
    return [_row(path, classes, same, paths) for path in sorted(paths)]


_SAME = {"ls": "ps", "list": "ps"}
_IMAGES = {"ls": "images", "list": "images", "rm": "rmi"}


def _verbs_of_images() -> list[str]:
    """Return docker's verbs after `image`; none if the workshop is not installed."""
    try:
        return list(cli.part(cli.COMMANDS["image"], "COMMANDS"))
    except ImportError:
        return []


def _verbs(group: str) -> dict[str, str]:
    """Return what the verbs of docker's group are: minirun.docker.groups."""
    found: dict[str, str] = cli.part("minirun.docker.groups", group)
    return found


def _modules_of_groups() -> list[str]:
    targets = [*_verbs("CONTAINER").values(), *_verbs("SYSTEM").values()]
    return [target.rpartition(".")[0] for target in targets if "." in target]


def _below(base: type[Flags]) -> list[type[Flags]]:
    return [found for each in base.__subclasses__() for found in (each, *_below(each))]


def _row(
    path: str, classes: dict[str, type[Flags]], same: dict[str, str], paths: set[str]
) -> CompletionRow:
    known = classes.get(path) or classes.get(same.get(path, ""), Flags)
    flags = {
        name: (one, _said(known, key)) for key, one in known.known().items() for name in one.names
    }
    begin = f"{path} " if path else ""
    verbs = {other[len(begin) :] for other in paths if other.startswith(begin) and other != path}
    target = same.get(path, path)
    names = [each.__name__ for each in known.__mro__] if known is not Flags else [target]
    section: dict[str, str] = next(
        (TEXTS[name] for name in names if "arguments" in TEXTS.get(name, ())), {}
    )
    about = "" if path in _LISTS else _about(path, section.get("arguments", ""))
    return CompletionRow(
        path, flags, sorted(verb for verb in verbs if verb and " " not in verb), about
    )


_LISTS = ("container ls", "container list", "container ps")


def _about(path: str, arguments: str) -> str:
    first = arguments.lstrip("[").split(" ")[0].rstrip("]…")
    if first.startswith("ID"):
        return "containers"
    if first.startswith("IMAGE"):
        return "images"
    is_network = first == "NETWORK" or (first == "NAME" and path.startswith("network "))
    return "networks" if is_network and path != "network create" else ""


def _said(flags: type[Flags], key: str) -> str:
    """Return what a flag is for, in one line."""
    for base in flags.__mro__:
        texts = TEXTS.get(base.__name__, {}).get("flags", {})
        if key in texts:
            found = texts[key]
            return found if isinstance(found, str) else f"{found[0]}: {found[1]}"
    return ""


_BASH = r"""
_minirun_row() {
    flags= values= verbs= about=
    case $1 in
ROWS
    *) return 1;;
    esac
}

_minirun_ask() {
    minirun "${global[@]}" "$@" 2>/dev/null
}

_minirun() {
    local cur=${COMP_WORDS[COMP_CWORD]} at=1 path= arguments=0 flags values verbs about word
    local -a global=()
    _minirun_row ""
    while [ "$at" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[at]}
        if [[ $word == -* && $arguments == 0 ]]; then
            [ -n "$path" ] || global+=("$word")
            if [[ $values == *" $word "* ]]; then
                at=$((at + 1))
                [ "${COMP_WORDS[at]}" != = ] || at=$((at + 1))
                [ -n "$path" ] || global+=("${COMP_WORDS[at]}")
                if [ "$at" -ge "$COMP_CWORD" ]; then
                    ! type compopt >/dev/null 2>&1 || compopt -o default
                    return
                fi
            fi
        elif [[ $arguments == 0 && $verbs == *" $word "* ]]; then
            path="${path:+$path }$word"
            _minirun_row "$path" || return
        else
            arguments=$((arguments + 1))
        fi
        at=$((at + 1))
    done
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    elif [[ -n $verbs && $arguments == 0 ]]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
    else
        case $about in
ASKS
        *) ! type compopt >/dev/null 2>&1 || compopt -o default;;
        esac
    fi
}
complete -F _minirun minirun
"""


def _bash(found: list[CompletionRow]) -> str:
    lines = []
    for row in found:
        taken = [
            name for name, (one, _) in row.flags.items() if one.kind != "bool" and not one.optional
        ]
        parts = [f'flags="{" ".join(row.flags)}"']
        parts += [f'values=" {" ".join(taken)} "'] if taken else []
        parts += [f'verbs=" {" ".join(row.verbs)} "'] if row.verbs else []
        parts += [f"about={row.about}"] if row.about else []
        lines.append(f'    "{row.path}") {" ".join(parts)};;')
    asks = [
        f'        {about}) COMPREPLY=($(compgen -W "$(_minirun_ask {words})" -- "$cur"));;'
        for about, words in _ASKS.items()
    ]
    script = _BASH.replace("ROWS", "\n".join(lines)).replace("ASKS", "\n".join(asks))
    return "# minirun's completion for bash: source <(minirun completion bash)\n" + script.lstrip()


_ZSH_END = "[[ ${funcstack[1]:-} != _minirun ]] || _bash_complete -F _minirun\n"
"""As a file of zsh's $fpath the script is read at the first Tab, which waits for an answer."""


def _zsh(found: list[CompletionRow]) -> str:
    head = "#compdef minirun\nautoload -U +X bashcompinit && bashcompinit\n"
    return head + _bash(found) + _ZSH_END


_FISH = r"""function __minirun_at
    set -l words (commandline -opc)[2..]
    set -l path
    for word in $words
        string match -q -- '-*' $word; and continue
        set -l next (string trim "$path $word")
        contains -- $next $__minirun_paths; and set path $next
    end
    test "$path" = "$argv[1]"
end
complete -c minirun -f
"""


def _fish(found: list[CompletionRow]) -> str:
    quoted = " ".join(f"'{row.path}'" for row in found if row.path)
    lines = [f"set -g __minirun_paths {quoted}", _FISH.rstrip()]
    for row in found:
        begin = f"complete -c minirun -n \"__minirun_at '{row.path}'\""
        if row.verbs:
            lines.append(f"{begin} -a '{' '.join(row.verbs)}'")
        if row.about:
            words = _ASKS[row.about].replace("'", "\\'")
            lines.append(f"{begin} -a '(minirun {words} 2>/dev/null)'")
        for name, (one, text) in row.flags.items():
            kind = "-l" if name.startswith("--") else "-s"
            value = "" if one.kind == "bool" else " -r"
            shown = text.replace("\\", "\\\\").replace("'", "\\'")
            lines.append(f"{begin} {kind} {name.lstrip('-')}{value} -d '{shown}'")
    return (
        "# minirun's completion for fish: minirun completion fish | source\n"
        + "\n".join(lines)
        + "\n"
    )
