// A beginning of the ladder in Go: its command line is read; the rest is yours.
// `minirun level start 0 --in go` writes a copy of it.
//
// Go has threads before main begins, and two calls of a runtime want a process without:
//
//   - A copy of the process by clone(2) alone has one of its threads, and cannot go on. So start
//     this program again, with other words: exec.Command("/proc/self/exe", "init", …), with the new
//     namespaces in SysProcAttr.Cloneflags. What init is to know goes along as words, or through a
//     pipe in ExtraFiles, which is descriptor 3 there: syscall.CloseOnExec(3) in init.
//   - setns(2) into a mount namespace: runtime.LockOSThread, syscall.Unshare(CLONE_FS), then setns
//     (number 308 on x86-64). It is that thread alone which is there then: do all mounts in this
//     goroutine.
//
// SysProcAttr.Pdeathsig is of the thread that starts init: runtime.LockOSThread in main keeps it.
// exec.Cmd gives a child /dev/null where Stdin is nil, and this program's environment where Env is.
// encoding/json reads config.json.
package main

import (
	"fmt"
	"os"
	"strings"
)

// withoutValue are the flags that stand alone; each other one has a value, in the next word or
// after a "=".
var withoutValue = map[string]bool{"--all": true, "--force": true, "--systemd-cgroup": true,
	"--no-pivot": true, "--no-new-keyring": true}

// parse takes the flags that stand before the first other word; it returns them and all words after.
func parse(words []string) (map[string]string, []string) {
	flags := map[string]string{}
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		name, value, given := strings.Cut(words[0], "=")
		words = words[1:]
		if !given && !withoutValue[name] {
			if len(words) == 0 {
				fail(1, name+" needs a value")
			}
			value, words = words[0], words[1:]
		}
		flags[name] = value
	}
	return flags, words
}

// fail ends this process with a line on standard error.
func fail(status int, text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(status)
}

func run(flags map[string]string, command []string) int {
	panic("level 0: run is not written yet")
}

func main() {
	_, words := parse(os.Args[1:]) // from level 9 on there are flags before the command
	if len(words) == 0 {
		fail(1, "usage: run [FLAGS] COMMAND ...")
	}
	flags, rest := parse(words[1:])
	switch words[0] {
	case "run":
		if len(rest) == 0 {
			fail(1, "run: a command is missing")
		}
		os.Exit(run(flags, rest))
	default:
		fail(1, words[0]+": no such command")
	}
}
