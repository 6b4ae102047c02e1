"""Level 10, exec, of which no program is published: what is added to level 9's, and where.

`text()` returns the whole program; the checks are tried on it, and on what can be wrong in it.
"""

from minirun.faces.teach.levels import programs

FUNCTIONS = '''\
def enter(args):
    """Execute a second command in a container that runs. Return its exit status."""
    container = find(args)
    if container.status != "running":
        raise Failed(f"cannot exec in a container that is {container.status}")
    process = container.config["process"] | {"args": args.command, "terminal": False}
    if args.process:
        process = json.loads(Path(args.process).read_text())
    container.config["process"], container.console = process, args.console_socket
    # What is the host's is opened before: where the child will be, it is not there.
    paths = [cgroup_path(container, each) / "cgroup.procs" for each in CONTROLLERS]
    cgroups = [os.open(path, os.O_WRONLY) for path in paths]
    error, child_error = os.pipe()
    linux.setns(f"/proc/{container.pid}/ns/pid", linux.CLONE_NEWPID)  # for the next child
    pid = os.fork()
    if pid == 0:
        os._exit(second(container, cgroups, child_error))
    os.close(child_error)
    if said := os.read(error, 4096).decode():  # the end of the file: exec has closed it
        os.waitpid(pid, 0)
        status, text = said.split(" ", 1)
        raise Failed(text, int(status))
    if args.pid_file:
        Path(args.pid_file).write_text(str(pid))
    if args.detach:
        return 0
    return exit_status(os.waitpid(pid, 0)[1])


def second(container, cgroups, error):
    """Be the second command. Return the exit status if that fails; what failed goes to `error`."""
    try:
        for fd in cgroups:
            os.write(fd, b"0")
        console = connect_console(container)
        ns = f"/proc/{container.pid}/ns"
        for kind, name in (("ipc",) * 2, ("uts",) * 2, ("network", "net"), ("cgroup",) * 2):
            linux.setns(f"{ns}/{name}", NAMESPACES[kind])
        linux.setns(f"{ns}/mnt", linux.CLONE_NEWNS)  # the last: afterwards /proc is another one
        if console:
            use_terminal(console)
        find_command(container.config["process"])
        drop_privileges(container.config)
        execute(container.config["process"])
    except BaseException as failed:
        status = getattr(failed, "status", 1)
        os.write(error, f"{status} {failed}".encode())
        return status


'''
PARSER = """\
    command = commands.add_parser("exec", help="execute a second command")
    command.set_defaults(call=enter)
    command.add_argument("-p", "--process")
    command.add_argument("-d", "--detach", action="store_true")
    command.add_argument("--pid-file")
    command.add_argument("--console-socket")
    command.add_argument("-t", "--tty", action="store_true")
    command.add_argument("id")
    command.add_argument("command", nargs=argparse.REMAINDER)
"""


def text() -> str:
    """The whole program."""
    found = programs.find("9").path.read_text()
    for place, added in (
        ("def kill(args):\n", FUNCTIONS),
        ("    args = parser.parse_args()\n", PARSER),
    ):
        assert found.count(place) == 1
        found = found.replace(place, added + place)
    return found
