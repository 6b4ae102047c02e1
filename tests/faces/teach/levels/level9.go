// Level 9 of the ladder in Go: run, create, start, state, kill and delete. It was written from the
// lessons and the manual alone, by someone who had read none of the programs in Python. test_languages.py
// compiles it, and lets `minirun level check 9 -- ./mine` ask the kernel about it. For x86-64: the
// numbers of system calls stand here, since it has no libseccomp.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const state = "/run/ladder"

var namespaceFlags = map[string]uintptr{
	"mount": syscall.CLONE_NEWNS, "pid": syscall.CLONE_NEWPID, "uts": syscall.CLONE_NEWUTS,
	"ipc": syscall.CLONE_NEWIPC, "network": syscall.CLONE_NEWNET, "cgroup": 0x02000000,
}

// What this program reads of config.json.
type Mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source,omitempty"`
	Options     []string `json:"options,omitempty"`
}

type Hook struct {
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"`
	Env     []string `json:"env,omitempty"`
	Timeout *int     `json:"timeout,omitempty"`
}

type Process struct {
	User struct {
		UID            int   `json:"uid"`
		GID            int   `json:"gid"`
		AdditionalGids []int `json:"additionalGids,omitempty"`
	} `json:"user"`
	NoNewPrivileges bool                `json:"noNewPrivileges,omitempty"`
	Capabilities    map[string][]string `json:"capabilities,omitempty"`
	Rlimits         []struct {
		Type string `json:"type"`
		Soft uint64 `json:"soft"`
		Hard uint64 `json:"hard"`
	} `json:"rlimits,omitempty"`
	Terminal    bool `json:"terminal,omitempty"`
	ConsoleSize *struct {
		Height uint16 `json:"height"`
		Width  uint16 `json:"width"`
	} `json:"consoleSize,omitempty"`
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	Cwd  string   `json:"cwd"`
}

type Namespace struct {
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
}

type Seccomp struct {
	DefaultAction   string `json:"defaultAction"`
	DefaultErrnoRet *uint  `json:"defaultErrnoRet,omitempty"`
	Syscalls        []struct {
		Names    []string `json:"names"`
		Action   string   `json:"action"`
		ErrnoRet *uint    `json:"errnoRet,omitempty"`
		Args     []struct {
			Index    uint   `json:"index"`
			Value    uint64 `json:"value"`
			ValueTwo uint64 `json:"valueTwo,omitempty"`
			Op       string `json:"op"`
		} `json:"args,omitempty"`
	} `json:"syscalls,omitempty"`
}

type Config struct {
	OciVersion string `json:"ociVersion"`
	Root       struct {
		Path     string `json:"path"`
		Readonly bool   `json:"readonly,omitempty"`
	} `json:"root"`
	Hostname    string            `json:"hostname,omitempty"`
	Process     Process           `json:"process"`
	Mounts      []Mount           `json:"mounts,omitempty"`
	Hooks       map[string][]Hook `json:"hooks,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Linux       struct {
		Namespaces    []Namespace `json:"namespaces,omitempty"`
		CgroupsPath   string      `json:"cgroupsPath,omitempty"`
		MaskedPaths   []string    `json:"maskedPaths,omitempty"`
		ReadonlyPaths []string    `json:"readonlyPaths,omitempty"`
		Seccomp       *Seccomp    `json:"seccomp,omitempty"`
		Resources     struct {
			Memory struct {
				Limit int64 `json:"limit,omitempty"`
			} `json:"memory"`
			Pids struct {
				Limit int64 `json:"limit,omitempty"`
			} `json:"pids"`
			CPU struct {
				Quota  int64 `json:"quota,omitempty"`
				Period int64 `json:"period,omitempty"`
			} `json:"cpu"`
		} `json:"resources"`
	} `json:"linux"`
}

// Container is what init has to know too: it reads it from Directory/container.json.
type Container struct {
	ID        string
	Root      string // the directory of all containers
	Directory string
	Bundle    string
	Console   string // the engine's socket
	Config    *Config
	Pid       int
}

func (c *Container) root() string { return c.Directory + "/rootfs" }

func readJSON(path string, into interface{}) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, from interface{}) error {
	data, err := json.MarshalIndent(from, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0600)
}

func exitStatus(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// execute becomes the command that config.json describes, with its environment and directory.
// exec.LookPath is not used: it asks stat(2) and the mode, where execvp(3) tries.
func execute(p Process) error {
	syscall.Umask(0022)
	if p.Cwd != "" {
		if err := os.Chdir(p.Cwd); err != nil {
			return err
		}
	}
	name := p.Args[0]
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		for _, each := range p.Env {
			if value, ok := cutPrefix(each, "PATH="); ok {
				path = value
			}
		}
		candidates = nil
		for _, dir := range strings.Split(path, ":") {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	err := error(syscall.ENOENT)
	for _, each := range candidates {
		e := syscall.Exec(each, p.Args, p.Env)
		if e != syscall.ENOENT && e != syscall.ENOTDIR {
			err = e
			if e != syscall.EACCES {
				break
			}
		}
	}
	if err == syscall.ENOENT {
		return failed{name + ": not found", 127}
	}
	return failed{fmt.Sprintf("%s: %v", name, err), 126}
}

func cutPrefix(s, prefix string) (string, bool) {
	return strings.TrimPrefix(s, prefix), strings.HasPrefix(s, prefix)
}

// failed is an error with the exit status that it gives.
type failed struct {
	text   string
	status int
}

func (f failed) Error() string { return f.text }

func statusOf(err error) int {
	var f failed
	if errors.As(err, &f) {
		return f.status
	}
	return 1
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "level 9:", err)
	return statusOf(err)
}

// channel is one side's two ends of the two pipes.
type channel struct {
	in   *bufio.Reader
	out  *os.File
	peer string
}

func newChannel(in, out *os.File, peer string) *channel {
	return &channel{bufio.NewReader(in), out, peer}
}

func (c *channel) say(line string) error {
	if _, err := c.out.WriteString(line + "\n"); err != nil {
		return failed{c.peer + " has died", 1}
	}
	return nil
}

// expect waits for a line; for "", until the peer's end is closed.
func (c *channel) expect(line string) error {
	heard, _ := c.in.ReadString('\n')
	heard = strings.TrimSuffix(heard, "\n")
	if strings.HasPrefix(heard, "error ") {
		words := strings.SplitN(heard, " ", 3)
		status, _ := strconv.Atoi(words[1])
		return failed{words[2], status}
	}
	if heard == line {
		return nil
	}
	if heard == "" {
		return failed{c.peer + " has died", 1}
	}
	return failed{fmt.Sprintf("%s said %q", c.peer, heard), 1}
}

func (c *channel) fail(err error) int {
	status := statusOf(err)
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	if c.say(fmt.Sprintf("error %d %s", status, text)) != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return status
}

// options are those of all commands, and of each.
type options struct {
	root, log, logFormat        string
	bundle, pidFile, console    string
	systemd, noPivot, noKeyring bool
	all, force                  bool
	id, signal                  string
}

// load makes the container that an engine wants, of its bundle.
func load(o *options) (*Container, error) {
	bundle, err := filepath.Abs(o.bundle)
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return nil, err
	}
	c := &Container{ID: o.id, Root: root, Directory: filepath.Join(root, o.id), Bundle: bundle, Console: o.console, Config: &Config{}}
	if o.id == "" || o.id == "." || o.id == ".." || strings.Contains(o.id, "/") {
		return nil, fmt.Errorf("container id %q is none", o.id)
	}
	if err := readJSON(bundle+"/config.json", c.Config); err != nil {
		return nil, err
	}
	for _, each := range c.Config.Linux.Namespaces {
		if _, ok := namespaceFlags[each.Type]; !ok {
			return nil, fmt.Errorf("namespaces of type %s are not made here", each.Type)
		}
	}
	chosen, err := visibleGPUs(c.Config)
	if err != nil {
		return nil, err
	}
	if len(chosen) > 0 { // this program is the hook, too
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		if c.Config.Hooks == nil {
			c.Config.Hooks = map[string][]Hook{}
		}
		c.Config.Hooks["prestart"] = append(c.Config.Hooks["prestart"], Hook{Path: self,
			Args: []string{self, "--root", root, "hook"}, Env: []string{"NVIDIA_DRIVER_ROOT=" + driver()}})
	}
	if err := os.MkdirAll(root, 0700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(c.Directory, 0700); err != nil {
		if os.IsExist(err) {
			err = fmt.Errorf("container id %q is in use", o.id)
		}
		return nil, err
	}
	err = os.Mkdir(c.root(), 0755)
	if err == nil {
		err = writeJSON(c.Directory+"/container.json", c)
	}
	if err == nil {
		err = syscall.Mkfifo(c.fifo(), 0600)
	}
	if err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

func (c *Container) remove() {
	// not RemoveAll at once: if rootfs is mounted on, that would empty it
	if err := os.Remove(c.root()); err == nil || os.IsNotExist(err) {
		os.RemoveAll(c.Directory)
	}
	for _, controller := range controllers {
		path := c.cgroup(controller)
		for i := 0; ; i++ {
			err := os.Remove(path)
			if err == nil || os.IsNotExist(err) {
				break
			}
			if i == 100 {
				fmt.Fprintln(os.Stderr, err)
				break
			}
			if data, err := os.ReadFile(path + "/cgroup.procs"); err == nil { // without a pid namespace they live on
				for _, each := range strings.Fields(string(data)) {
					if pid, err := strconv.Atoi(each); err == nil {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// status asks the kernel: created, running or stopped.
func (c *Container) status() string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Pid))
	if err != nil {
		return "stopped"
	}
	rest := string(data[bytes.LastIndexByte(data, ')')+1:])
	if letter := strings.Fields(rest)[0]; letter == "Z" || letter == "X" {
		return "stopped"
	}
	if _, err := os.Stat(c.fifo()); err == nil {
		return "created"
	}
	return "running"
}

func (c *Container) fifo() string { return c.Directory + "/exec.fifo" }

// State is what hooks and engines read.
type State struct {
	OciVersion  string            `json:"ociVersion"`
	ID          string            `json:"id"`
	Status      string            `json:"status"`
	Pid         int               `json:"pid"`
	Bundle      string            `json:"bundle"`
	Annotations map[string]string `json:"annotations"`
}

func (c *Container) state(status string) State {
	notes := c.Config.Annotations
	if notes == nil {
		notes = map[string]string{}
	}
	return State{"1.0.2", c.ID, status, c.Pid, c.Bundle, notes}
}

// make is all up to init's word that it waits for start.
func makeContainer(o *options) (*Container, *exec.Cmd, error) {
	c, err := load(o)
	if err != nil {
		return nil, nil, err
	}
	cmd, err := launch(c)
	if err == nil {
		err = writeJSON(c.Directory+"/state.json", c.state("created"))
	}
	if err == nil && o.pidFile != "" {
		err = os.WriteFile(o.pidFile, []byte(strconv.Itoa(c.Pid)), 0644)
	}
	if err != nil {
		if cmd != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		c.remove()
		return nil, nil, err
	}
	return c, cmd, nil
}

func create(o *options) (int, error) {
	_, _, err := makeContainer(o)
	return 0, err
}

func find(o *options) (*Container, error) {
	c := &Container{}
	directory := filepath.Join(o.root, o.id)
	var st State
	if o.id == "" || strings.Contains(o.id, "/") || readJSON(directory+"/state.json", &st) != nil {
		return nil, fmt.Errorf("container %q does not exist", o.id)
	}
	if err := readJSON(directory+"/container.json", c); err != nil {
		return nil, err
	}
	c.Pid = st.Pid
	return c, nil
}

func startContainer(c *Container) error {
	if status := c.status(); status != "created" {
		return fmt.Errorf("cannot start a container that is %s", status)
	}
	fd, err := syscall.Open(c.fifo(), syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("exec.fifo: %w", err)
	}
	defer syscall.Close(fd)
	if err := os.Remove(c.fifo()); err != nil {
		return err
	}
	if _, err := syscall.Write(fd, []byte("\n")); err != nil {
		return fmt.Errorf("exec.fifo: %w", err)
	}
	return runHooks(c, "poststart", "running")
}

func start(o *options) (int, error) {
	c, err := find(o)
	if err != nil {
		return 1, err
	}
	return 0, startContainer(c)
}

func run(o *options) (int, error) {
	c, cmd, err := makeContainer(o)
	if err != nil {
		return 1, err
	}
	defer c.remove()
	if err := startContainer(c); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return 1, err
	}
	cmd.Wait()
	if c.wasKilledForMemory() {
		fmt.Fprintln(os.Stderr, "level 9: a process was killed: the memory limit was reached")
	}
	return exitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

func printState(o *options) (int, error) {
	c, err := find(o)
	if err != nil {
		return 1, err
	}
	data, err := json.MarshalIndent(c.state(c.status()), "", " ")
	fmt.Println(string(data))
	return 0, err
}

var signals = map[string]syscall.Signal{"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7,
	"FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16,
	"CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25,
	"VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29, "PWR": 30, "SYS": 31}

func parseSignal(text string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n), nil
	}
	if s, ok := signals[strings.TrimPrefix(strings.ToUpper(text), "SIG")]; ok {
		return s, nil
	}
	return 0, fmt.Errorf("unknown signal %q", text)
}

func kill(o *options) (int, error) {
	c, err := find(o)
	if err != nil {
		return 1, err
	}
	signal, err := parseSignal(o.signal)
	if err != nil {
		return 1, err
	}
	if c.status() == "stopped" {
		if o.all {
			return 0, nil
		}
		return 1, errors.New("container not running")
	}
	if o.all {
		if data, err := os.ReadFile(c.cgroup("devices") + "/cgroup.procs"); err == nil {
			for _, each := range strings.Fields(string(data)) {
				if pid, err := strconv.Atoi(each); err == nil && pid != c.Pid {
					syscall.Kill(pid, signal)
				}
			}
		}
	}
	return 0, syscall.Kill(c.Pid, signal)
}

func remove(o *options) (int, error) {
	c, err := find(o)
	if err != nil {
		if _, e := os.Stat(filepath.Join(o.root, o.id, "state.json")); o.force && e != nil {
			return 0, nil
		}
		return 1, err
	}
	if c.status() == "running" && !o.force {
		return 1, fmt.Errorf("container %s is not stopped: running", o.id)
	}
	for c.status() != "stopped" {
		syscall.Kill(c.Pid, syscall.SIGKILL)
		time.Sleep(10 * time.Millisecond)
	}
	c.remove()
	return 0, runHooks(c, "poststop", "stopped")
}

// runHooks runs the hooks of one kind; if one fails, there is no container.
func runHooks(c *Container, kind, status string) error {
	state, err := json.Marshal(c.state(status))
	if err != nil {
		return err
	}
	for _, hook := range c.Config.Hooks[kind] {
		if err := runHook(hook, state); err != nil {
			return failed{fmt.Sprintf("%s hook %s: %v", kind, hook.Path, err), 1}
		}
	}
	return nil
}

func runHook(hook Hook, state []byte) error {
	ctx := context.Background()
	if hook.Timeout != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*hook.Timeout)*time.Second)
		defer cancel()
	}
	var said bytes.Buffer
	args := hook.Args
	if len(args) == 0 {
		args = []string{hook.Path}
	}
	cmd := &exec.Cmd{Path: hook.Path, Args: args, Env: append([]string{}, hook.Env...),
		Stdin: bytes.NewReader(state), Stderr: &said,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if ee, ok := err.(*exec.ExitError); ok {
			return fmt.Errorf("%v: %s", ee, strings.TrimSpace(said.String()))
		}
		return err
	case <-ctx.Done():
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and its children
		<-ended
		return fmt.Errorf("took longer than its timeout of %d s", *hook.Timeout)
	}
}

// launch starts this program again as init, in new namespaces, and lets it go on to its command.
func launch(c *Container) (*exec.Cmd, error) {
	fromR, fromW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	toR, toW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer fromR.Close()
	defer toW.Close()
	var flags uintptr
	for _, each := range c.Config.Linux.Namespaces {
		if each.Path == "" {
			flags |= namespaceFlags[each.Type]
		}
	}
	cmd := exec.Command("/proc/self/exe", "init", c.Directory)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{toR, fromW} // 3 and 4 there
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	toR.Close()
	fromW.Close()
	if err != nil {
		return nil, err
	}
	c.Pid = cmd.Process.Pid
	if err := agree(c, cmd.Process.Pid, newChannel(fromR, toW, "init")); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, err
	}
	return cmd, nil
}

func agree(c *Container, pid int, init *channel) error {
	if err := init.expect("RUN_HOOKS"); err != nil {
		return err
	}
	if err := makeCgroup(c, pid); err != nil {
		return err
	}
	for _, kind := range []string{"prestart", "createRuntime"} {
		if err := runHooks(c, kind, "creating"); err != nil {
			return err
		}
	}
	if err := init.say("HOOKS_DONE"); err != nil {
		return err
	}
	return init.expect("CREATED")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	return nil
}

func isolateMounts() error {
	return mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
}

func mountRoot(c *Container) error {
	source := c.Config.Root.Path
	if !filepath.IsAbs(source) {
		source = filepath.Join(c.Bundle, source)
	}
	return mount(source, c.root(), "", syscall.MS_BIND|syscall.MS_REC, "")
}

var mountFlags = map[string]uintptr{
	"ro": syscall.MS_RDONLY, "nosuid": syscall.MS_NOSUID, "nodev": syscall.MS_NODEV, "noexec": syscall.MS_NOEXEC,
	"bind": syscall.MS_BIND, "rbind": syscall.MS_BIND | syscall.MS_REC, "remount": syscall.MS_REMOUNT,
	"noatime": syscall.MS_NOATIME, "relatime": syscall.MS_RELATIME, "strictatime": syscall.MS_STRICTATIME,
	"nodiratime": syscall.MS_NODIRATIME,
	"rw":         0, "suid": 0, "dev": 0, "exec": 0, "private": 0, "rprivate": 0,
}

func mountOptions(options []string) (flags uintptr, data string) {
	var rest []string
	for _, each := range options {
		if flag, ok := mountFlags[each]; ok {
			flags |= flag
		} else {
			rest = append(rest, each)
		}
	}
	return flags, strings.Join(rest, ",")
}

func touch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0644)
	if err != nil {
		return err
	}
	return f.Close()
}

func mountAll(c *Container) error {
	for _, m := range c.Config.Mounts {
		if m.Type == "cgroup" {
			continue
		}
		target := c.root() + m.Destination
		flags, data := mountOptions(m.Options)
		source := m.Source
		isFile := false
		if flags&syscall.MS_BIND != 0 {
			if !filepath.IsAbs(source) {
				source = filepath.Join(c.Bundle, source)
			}
			info, err := os.Stat(source)
			if err != nil {
				return err
			}
			isFile = !info.IsDir()
		}
		var err error
		if isFile {
			err = touch(target)
		} else {
			err = os.MkdirAll(target, 0755)
		}
		if err != nil {
			return err
		}
		if err := mount(source, target, m.Type, flags, data); err != nil {
			return err
		}
		if flags&syscall.MS_BIND != 0 { // the first call has ignored the other flags
			if err := mount("", target, "", flags|syscall.MS_REMOUNT, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

var devices = map[string][2]int{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7},
	"random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0}}

// mkdev packs the numbers as Linux has them: a minor above 255 lies in two places.
func mkdev(n [2]int) int {
	major, minor := n[0], n[1]
	return major<<8 | minor&0xff | (minor&^0xff)<<12
}

func makeNodes(dev string, nodes map[string][2]int) error {
	for name, numbers := range nodes {
		if err := syscall.Mknod(dev+"/"+name, syscall.S_IFCHR|0666, mkdev(numbers)); err != nil {
			return fmt.Errorf("mknod %s: %w", name, err)
		}
	}
	return nil
}

func makeDevices(root string) error {
	if err := makeNodes(root+"/dev", devices); err != nil {
		return err
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, root+"/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// ---- less power

// hide hides maskedPaths, and makes readonlyPaths read-only. What is not there needs no hiding.
func hide(config *Config) error {
	const readOnly = syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY
	if config.Root.Readonly {
		if err := mount("", "/", "", readOnly, ""); err != nil {
			return err
		}
	}
	for _, path := range config.Linux.MaskedPaths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if info.IsDir() {
			err = mount("tmpfs", path, "tmpfs", syscall.MS_RDONLY, "")
		} else {
			err = mount("/dev/null", path, "", syscall.MS_BIND, "")
		}
		if err != nil {
			return err
		}
	}
	for _, path := range config.Linux.ReadonlyPaths {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := mount(path, path, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return err
		}
		if err := mount("", path, "", readOnly, ""); err != nil {
			return err
		}
	}
	return nil
}

var capabilities = strings.Fields(`CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL
	CAP_SETGID CAP_SETUID CAP_SETPCAP CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN
	CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT
	CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE
	CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG CAP_WAKE_ALARM
	CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`)

var rlimits = map[string]int{"RLIMIT_CPU": 0, "RLIMIT_FSIZE": 1, "RLIMIT_DATA": 2, "RLIMIT_STACK": 3, "RLIMIT_CORE": 4,
	"RLIMIT_RSS": 5, "RLIMIT_NPROC": 6, "RLIMIT_NOFILE": 7, "RLIMIT_MEMLOCK": 8, "RLIMIT_AS": 9, "RLIMIT_LOCKS": 10,
	"RLIMIT_SIGPENDING": 11, "RLIMIT_MSGQUEUE": 12, "RLIMIT_NICE": 13, "RLIMIT_RTPRIO": 14, "RLIMIT_RTTIME": 15}

// call is a system call of this thread alone; what Go's Setuid does to all threads is not wanted:
// the one that calls exec counts.
func call(what string, number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return fmt.Errorf("%s: %w", what, errno)
	}
	return nil
}

func prctl(what string, args ...uintptr) error { return call(what, syscall.SYS_PRCTL, args...) }

const (
	prCapbsetRead, prCapbsetDrop = 23, 24
	prSetKeepcaps, prNoNewPrivs  = 8, 38
	prCapAmbient, ambientRaise   = 47, 2
	sysCloseRange, sysSeccomp    = 436, 317
)

// dropPrivileges takes on the user, and keeps what config.json names. The order matters.
func dropPrivileges(config *Config) error {
	p, profile := config.Process, config.Linux.Seccomp
	if err := call("close_range", sysCloseRange, 3, 0xffffffff, 4); err != nil {
		return err
	}
	for _, limit := range p.Rlimits {
		number, ok := rlimits[limit.Type]
		if !ok {
			return fmt.Errorf("rlimits: %s is not known", limit.Type)
		}
		if err := syscall.Setrlimit(number, &syscall.Rlimit{Cur: limit.Soft, Max: limit.Hard}); err != nil {
			return fmt.Errorf("%s: %w", limit.Type, err)
		}
	}
	if profile != nil && !p.NoNewPrivileges { // this needs CAP_SYS_ADMIN
		if err := filterCalls(profile); err != nil {
			return err
		}
	}
	kept := map[string]uint64{}
	for kind, names := range p.Capabilities {
		for _, name := range names {
			for number, each := range capabilities {
				if each == name {
					kept[kind] |= 1 << number
				}
			}
		}
	}
	var held uint64
	last := 0
	for number := 0; number < 64; number++ {
		has, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapbsetRead, uintptr(number), 0)
		if errno != 0 {
			break
		}
		last = number
		if kept["bounding"]>>number&1 == 0 {
			if err := prctl("capbset_drop", prCapbsetDrop, uintptr(number)); err != nil {
				return err
			}
		} else if has == 1 {
			held |= 1 << number
		}
	}
	if err := prctl("keepcaps", prSetKeepcaps, 1); err != nil {
		return err
	}
	groups := make([]uint32, len(p.User.AdditionalGids)+1)
	for i, each := range p.User.AdditionalGids {
		groups[i] = uint32(each)
	}
	if err := call("setgroups", syscall.SYS_SETGROUPS, uintptr(len(groups)-1), uintptr(unsafe.Pointer(&groups[0]))); err != nil {
		return err
	}
	if err := call("setgid", syscall.SYS_SETGID, uintptr(p.User.GID)); err != nil {
		return err
	}
	if err := call("setuid", syscall.SYS_SETUID, uintptr(p.User.UID)); err != nil {
		return err
	}
	header := struct {
		version uint32
		pid     int32
	}{0x20080522, 0}
	var sets [6]uint32 // effective, permitted, inheritable: low words, then high words
	for i, kind := range []string{"effective", "permitted", "inheritable"} {
		sets[i], sets[i+3] = uint32(kept[kind]&held), uint32((kept[kind]&held)>>32)
	}
	if err := call("capset", syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0]))); err != nil {
		return err
	}
	for number := 0; number <= last; number++ {
		if kept["ambient"]>>number&1 == 1 {
			prctl("ambient", prCapAmbient, ambientRaise, uintptr(number))
		}
	}
	if p.NoNewPrivileges {
		if err := prctl("no_new_privs", prNoNewPrivs, 1); err != nil {
			return err
		}
		if profile != nil {
			return filterCalls(profile)
		}
	}
	return nil
}

type insn struct {
	op     uint16
	jt, jf uint8
	k      uint32
}

func seccompAction(name string, errno *uint) (uint32, error) {
	switch name {
	case "SCMP_ACT_ALLOW":
		return 0x7fff0000, nil
	case "SCMP_ACT_LOG":
		return 0x7ffc0000, nil
	case "SCMP_ACT_ERRNO":
		if errno != nil {
			return 0x00050000 | uint32(*errno), nil
		}
		return 0x00050000 | uint32(syscall.EPERM), nil
	case "SCMP_ACT_KILL", "SCMP_ACT_KILL_THREAD":
		return 0, nil
	case "SCMP_ACT_KILL_PROCESS":
		return 0x80000000, nil
	case "SCMP_ACT_TRAP":
		return 0x00030000, nil
	}
	return 0, fmt.Errorf("seccomp: %s is not known", name)
}

// seccompProgram is a filter for this processor's calls; all others end the process.
func seccompProgram(profile *Seccomp) ([]insn, error) {
	const ld, jeq, jgt, jge, and, ret = 0x20, 0x15, 0x25, 0x35, 0x54, 0x06
	byDefault, err := seccompAction(profile.DefaultAction, profile.DefaultErrnoRet)
	if err != nil {
		return nil, err
	}
	numbers := syscallNumbers()
	program := []insn{{ld, 0, 0, 4}, {jeq, 1, 0, 0xc000003e}, {ret, 0, 0, 0},
		{ld, 0, 0, 0}, {0x35, 0, 1, 0x40000000}, {ret, 0, 0, 0x00050000 | uint32(syscall.ENOSYS)}}
	for _, rule := range profile.Syscalls {
		action, err := seccompAction(rule.Action, rule.ErrnoRet)
		if err != nil {
			return nil, err
		}
		// The body of a rule: it returns, or falls through to the next rule.
		var body []insn
		if len(rule.Args) > 0 {
			var fails []int // which instructions jump to the end by jf, and by jt
			var failsT []int
			for _, a := range rule.Args {
				low, high := 16+8*uint32(a.Index), 20+8*uint32(a.Index)
				vl, vh := uint32(a.Value), uint32(a.Value>>32)
				switch strings.TrimPrefix(a.Op, "SCMP_CMP_") {
				case "EQ":
					fails = append(fails, len(body)+1, len(body)+3)
					body = append(body, insn{ld, 0, 0, high}, insn{jeq, 0, 0, vh}, insn{ld, 0, 0, low}, insn{jeq, 0, 0, vl})
				case "MASKED_EQ": // value is the mask
					fails = append(fails, len(body)+2, len(body)+5)
					body = append(body, insn{ld, 0, 0, high}, insn{and, 0, 0, vh}, insn{jeq, 0, 0, uint32(a.ValueTwo >> 32)},
						insn{ld, 0, 0, low}, insn{and, 0, 0, vl}, insn{jeq, 0, 0, uint32(a.ValueTwo)})
				case "NE":
					failsT = append(failsT, len(body)+3)
					body = append(body, insn{ld, 0, 0, high}, insn{jeq, 0, 2, vh}, insn{ld, 0, 0, low}, insn{jeq, 0, 0, vl})
				case "GT", "GE":
					op := uint16(jgt)
					if strings.HasSuffix(a.Op, "GE") {
						op = jge
					}
					// high greater: holds; equal: the low word decides
					fails = append(fails, len(body)+2, len(body)+4)
					body = append(body, insn{ld, 0, 0, high}, insn{jgt, 3, 0, vh}, insn{jeq, 0, 0, vh}, insn{ld, 0, 0, low}, insn{op, 0, 0, vl})
				case "LT", "LE":
					op := uint16(jge)
					if strings.HasSuffix(a.Op, "LE") {
						op = jgt
					}
					failsT = append(failsT, len(body)+1, len(body)+4)
					body = append(body, insn{ld, 0, 0, high}, insn{jgt, 0, 0, vh}, insn{jeq, 0, 2, vh}, insn{ld, 0, 0, low}, insn{op, 0, 0, vl})
				default:
					return nil, fmt.Errorf("seccomp: %s is not known", a.Op)
				}
			}
			body = append(body, insn{ret, 0, 0, action})
			end := len(body)
			for _, i := range fails {
				body[i].jf = uint8(end - i - 1)
			}
			for _, i := range failsT {
				body[i].jt = uint8(end - i - 1)
			}
			body = append(body, insn{ld, 0, 0, 0}) // the number again, for the next rule
		} else {
			body = []insn{{ret, 0, 0, action}}
		}
		for _, name := range rule.Names {
			if number, ok := numbers[name]; ok {
				program = append(program, insn{jeq, 0, uint8(len(body)), number})
				program = append(program, body...)
			}
		}
	}
	return append(program, insn{ret, 0, 0, byDefault}), nil
}

func filterCalls(profile *Seccomp) error {
	program, err := seccompProgram(profile)
	if err != nil {
		return err
	}
	prog := struct {
		count uint16
		first *insn
	}{uint16(len(program)), &program[0]}
	return call("seccomp", sysSeccomp, 1, 0, uintptr(unsafe.Pointer(&prog))) // SECCOMP_SET_MODE_FILTER
}

func syscallNumbers() map[string]uint32 {
	numbers := map[string]uint32{}
	for _, each := range strings.Fields(syscallTable) {
		name, number, _ := strings.Cut(each, "=")
		n, _ := strconv.Atoi(number)
		numbers[name] = uint32(n)
	}
	return numbers
}

// of x86-64: <asm/unistd_64.h>
const syscallTable = `
read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mmap=9 mprotect=10 munmap=11 brk=12
rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 ioctl=16 pread64=17 pwrite64=18 readv=19 writev=20 access=21
pipe=22 select=23 sched_yield=24 mremap=25 msync=26 mincore=27 madvise=28 shmget=29 shmat=30 shmctl=31 dup=32
dup2=33 pause=34 nanosleep=35 getitimer=36 alarm=37 setitimer=38 getpid=39 sendfile=40 socket=41 connect=42
accept=43 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47 shutdown=48 bind=49 listen=50 getsockname=51
getpeername=52 socketpair=53 setsockopt=54 getsockopt=55 clone=56 fork=57 vfork=58 execve=59 exit=60 wait4=61
kill=62 uname=63 semget=64 semop=65 semctl=66 shmdt=67 msgget=68 msgsnd=69 msgrcv=70 msgctl=71 fcntl=72
flock=73 fsync=74 fdatasync=75 truncate=76 ftruncate=77 getdents=78 getcwd=79 chdir=80 fchdir=81 rename=82
mkdir=83 rmdir=84 creat=85 link=86 unlink=87 symlink=88 readlink=89 chmod=90 fchmod=91 chown=92 fchown=93
lchown=94 umask=95 gettimeofday=96 getrlimit=97 getrusage=98 sysinfo=99 times=100 ptrace=101 getuid=102
syslog=103 getgid=104 setuid=105 setgid=106 geteuid=107 getegid=108 setpgid=109 getppid=110 getpgrp=111
setsid=112 setreuid=113 setregid=114 getgroups=115 setgroups=116 setresuid=117 getresuid=118 setresgid=119
getresgid=120 getpgid=121 setfsuid=122 setfsgid=123 getsid=124 capget=125 capset=126 rt_sigpending=127
rt_sigtimedwait=128 rt_sigqueueinfo=129 rt_sigsuspend=130 sigaltstack=131 utime=132 mknod=133 uselib=134
personality=135 ustat=136 statfs=137 fstatfs=138 sysfs=139 getpriority=140 setpriority=141 sched_setparam=142
sched_getparam=143 sched_setscheduler=144 sched_getscheduler=145 sched_get_priority_max=146
sched_get_priority_min=147 sched_rr_get_interval=148 mlock=149 munlock=150 mlockall=151 munlockall=152
vhangup=153 modify_ldt=154 pivot_root=155 _sysctl=156 prctl=157 arch_prctl=158 adjtimex=159 setrlimit=160
chroot=161 sync=162 acct=163 settimeofday=164 mount=165 umount2=166 swapon=167 swapoff=168 reboot=169
sethostname=170 setdomainname=171 iopl=172 ioperm=173 create_module=174 init_module=175 delete_module=176
get_kernel_syms=177 query_module=178 quotactl=179 nfsservctl=180 getpmsg=181 putpmsg=182 afs_syscall=183
tuxcall=184 security=185 gettid=186 readahead=187 setxattr=188 lsetxattr=189 fsetxattr=190 getxattr=191
lgetxattr=192 fgetxattr=193 listxattr=194 llistxattr=195 flistxattr=196 removexattr=197 lremovexattr=198
fremovexattr=199 tkill=200 time=201 futex=202 sched_setaffinity=203 sched_getaffinity=204 set_thread_area=205
io_setup=206 io_destroy=207 io_getevents=208 io_submit=209 io_cancel=210 get_thread_area=211
lookup_dcookie=212 epoll_create=213 epoll_ctl_old=214 epoll_wait_old=215 remap_file_pages=216 getdents64=217
set_tid_address=218 restart_syscall=219 semtimedop=220 fadvise64=221 timer_create=222 timer_settime=223
timer_gettime=224 timer_getoverrun=225 timer_delete=226 clock_settime=227 clock_gettime=228 clock_getres=229
clock_nanosleep=230 exit_group=231 epoll_wait=232 epoll_ctl=233 tgkill=234 utimes=235 vserver=236 mbind=237
set_mempolicy=238 get_mempolicy=239 mq_open=240 mq_unlink=241 mq_timedsend=242 mq_timedreceive=243
mq_notify=244 mq_getsetattr=245 kexec_load=246 waitid=247 add_key=248 request_key=249 keyctl=250
ioprio_set=251 ioprio_get=252 inotify_init=253 inotify_add_watch=254 inotify_rm_watch=255 migrate_pages=256
openat=257 mkdirat=258 mknodat=259 fchownat=260 futimesat=261 newfstatat=262 unlinkat=263 renameat=264
linkat=265 symlinkat=266 readlinkat=267 fchmodat=268 faccessat=269 pselect6=270 ppoll=271 unshare=272
set_robust_list=273 get_robust_list=274 splice=275 tee=276 sync_file_range=277 vmsplice=278 move_pages=279
utimensat=280 epoll_pwait=281 signalfd=282 timerfd_create=283 eventfd=284 fallocate=285 timerfd_settime=286
timerfd_gettime=287 accept4=288 signalfd4=289 eventfd2=290 epoll_create1=291 dup3=292 pipe2=293
inotify_init1=294 preadv=295 pwritev=296 rt_tgsigqueueinfo=297 perf_event_open=298 recvmmsg=299
fanotify_init=300 fanotify_mark=301 prlimit64=302 name_to_handle_at=303 open_by_handle_at=304
clock_adjtime=305 syncfs=306 sendmmsg=307 setns=308 getcpu=309 process_vm_readv=310 process_vm_writev=311
kcmp=312 finit_module=313 sched_setattr=314 sched_getattr=315 renameat2=316 seccomp=317 getrandom=318
memfd_create=319 kexec_file_load=320 bpf=321 execveat=322 userfaultfd=323 membarrier=324 mlock2=325
copy_file_range=326 preadv2=327 pwritev2=328 pkey_mprotect=329 pkey_alloc=330 pkey_free=331 statx=332
io_pgetevents=333 rseq=334 pidfd_send_signal=424 io_uring_setup=425 io_uring_enter=426 io_uring_register=427
open_tree=428 move_mount=429 fsopen=430 fsconfig=431 fsmount=432 fspick=433 pidfd_open=434 clone3=435
close_range=436 openat2=437 pidfd_getfd=438 faccessat2=439 process_madvise=440 epoll_pwait2=441
mount_setattr=442 quotactl_fd=443 landlock_create_ruleset=444 landlock_add_rule=445 landlock_restrict_self=446
memfd_secret=447 process_mrelease=448 futex_waitv=449 set_mempolicy_home_node=450`

// ---- GPUs

func driver() string {
	if d := os.Getenv("NVIDIA_DRIVER_ROOT"); d != "" {
		return d
	}
	return "/"
}

type gpu struct {
	folder string // its name below proc/driver/nvidia/gpus
	minor  int
}

// visibleGPUs is what NVIDIA_VISIBLE_DEVICES of the process names: indexes, UUIDs, or all.
func visibleGPUs(config *Config) ([]gpu, error) {
	wanted := ""
	for _, each := range config.Process.Env {
		if name, value, _ := strings.Cut(each, "="); name == "NVIDIA_VISIBLE_DEVICES" {
			wanted = value
		}
	}
	if wanted == "" || wanted == "void" || wanted == "none" {
		return nil, nil
	}
	base := filepath.Join(driver(), "proc/driver/nvidia/gpus")
	entries, err := os.ReadDir(base) // sorted by name: the order of the PCI bus
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	byName := map[string]gpu{}
	var all []gpu
	for i, entry := range entries {
		facts, err := os.ReadFile(filepath.Join(base, entry.Name(), "information"))
		if err != nil {
			return nil, err
		}
		g := gpu{folder: entry.Name(), minor: -1}
		for _, line := range strings.Split(string(facts), "\n") {
			key, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch key {
			case "GPU UUID":
				byName[value] = g
			case "Device Minor":
				if g.minor, err = strconv.Atoi(value); err != nil {
					return nil, err
				}
			}
		}
		for name, each := range byName { // the UUID's line may stand before the minor's
			if each.folder == g.folder {
				byName[name] = g
			}
		}
		byName[strconv.Itoa(i)] = g
		all = append(all, g)
	}
	if wanted == "all" {
		return all, nil
	}
	var chosen []gpu
	seen := map[string]bool{}
	for _, name := range strings.Split(wanted, ",") {
		g, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("NVIDIA_VISIBLE_DEVICES: there is no GPU %q", name)
		}
		if !seen[g.folder] {
			chosen = append(chosen, g)
		}
		seen[g.folder] = true
	}
	return chosen, nil
}

func gpuNodes(gpus []gpu) (map[string][2]int, error) {
	nodes := map[string][2]int{"nvidiactl": {195, 255}}
	for _, g := range gpus {
		nodes[fmt.Sprintf("nvidia%d", g.minor)] = [2]int{195, g.minor}
	}
	data, err := os.ReadFile(filepath.Join(driver(), "proc/devices"))
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(data), "\n") {
		if words := strings.Fields(line); len(words) == 2 && words[1] == "nvidia-uvm" {
			major, err := strconv.Atoi(words[0])
			if err != nil {
				return nil, err
			}
			nodes["nvidia-uvm"], nodes["nvidia-uvm-tools"] = [2]int{major, 0}, [2]int{major, 1}
		}
	}
	return nodes, nil
}

// driverFiles are the real paths of the driver's files, from the driver's root on: with a / first.
func driverFiles() ([]string, error) {
	root, err := filepath.EvalSymlinks(driver())
	if err != nil {
		return nil, err
	}
	listed, err := exec.Command("/sbin/ldconfig", "-r", root, "-p").Output()
	if err != nil {
		return nil, fmt.Errorf("ldconfig -p: %w", err)
	}
	wanted := map[string]bool{"libnvidia-ml.so.1": true, "libcuda.so.1": true, "libnvidia-ptxjitcompiler.so.1": true}
	var paths []string
	for _, line := range strings.Split(string(listed), "\n") {
		words := strings.Fields(line) // name (libc6,x86-64) => path
		if len(words) >= 4 && wanted[words[0]] {
			delete(wanted, words[0]) // the first is the one for this processor
			paths = append(paths, words[len(words)-1])
		}
	}
	paths = append(paths, "/usr/bin/nvidia-smi", "/usr/bin/nvidia-debugdump")
	var files []string
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, strings.TrimPrefix(real, strings.TrimSuffix(root, "/")))
	}
	return files, nil
}

// enterMounts takes this thread, which must be locked, into the mount namespace of a process. A
// thread that shares its root and directory with others may not go: hence CLONE_FS first.
func enterMounts(pid int) error {
	fd, err := syscall.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	const setns = 308 // x86-64
	if _, _, errno := syscall.RawSyscall(setns, uintptr(fd), syscall.CLONE_NEWNS, 0); errno != 0 {
		return fmt.Errorf("setns: %w", errno)
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0444)
}

// hookMain is the prestart hook: it puts GPUs into the container whose state is on standard input.
func hookMain(stateRoot string) error {
	var st struct {
		ID, Bundle string
		Pid        int
	}
	if err := json.NewDecoder(os.Stdin).Decode(&st); err != nil {
		return err
	}
	config := &Config{}
	if err := readJSON(st.Bundle+"/config.json", config); err != nil {
		return err
	}
	gpus, err := visibleGPUs(config)
	if err != nil {
		return err
	}
	nodes, err := gpuNodes(gpus)
	if err != nil {
		return err
	}
	files, err := driverFiles()
	if err != nil {
		return err
	}
	from := driver()
	root := filepath.Join(stateRoot, st.ID, "rootfs")
	if err := enterMounts(st.Pid); err != nil { // where init mounts, and waits
		return err
	}
	syscall.Umask(0)
	for _, path := range files {
		if err := touch(root + path); err != nil {
			return err
		}
		if err := mount(filepath.Join(from, path), root+path, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
		if err := mount("", root+path, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			return err
		}
	}
	if err := makeNodes(root+"/dev", nodes); err != nil {
		return err
	}
	if err := mount("tmpfs", root+"/proc/driver", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, g := range gpus { // only these are there
		there := filepath.Join(root, "proc/driver/nvidia/gpus", g.folder)
		here := filepath.Join(from, "proc/driver/nvidia/gpus", g.folder)
		if err := os.MkdirAll(there, 0755); err != nil {
			return err
		}
		entries, err := os.ReadDir(here)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := copyFile(filepath.Join(here, entry.Name()), filepath.Join(there, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := copyFile(filepath.Join(from, "proc/driver/nvidia/version"), root+"/proc/driver/nvidia/version"); err != nil {
		return err
	}
	if out, err := exec.Command("/sbin/ldconfig", "-r", root).CombinedOutput(); err != nil {
		return fmt.Errorf("ldconfig: %w: %s", err, out)
	}
	return nil
}

// ---- the cgroup

const cgroups = "/sys/fs/cgroup"

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// cgroup is the container's: version 1 has a tree for each controller, version 2 has one.
func (c *Container) cgroup(controller string) string {
	tree := filepath.Join(cgroups, controller)
	if !isDir(tree) {
		tree = cgroups
	}
	path := c.Config.Linux.CgroupsPath
	if path == "" {
		path = "ladder-" + c.ID
	}
	return filepath.Join(tree, filepath.Clean("/"+strings.ReplaceAll(path, ":", "/")))
}

func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// deviceProgram is an eBPF program that allows these character devices: an instruction is 8 bytes.
func deviceProgram(rules [][2]int) []byte {
	var code bytes.Buffer
	add := func(op, regs byte, off int16, imm int32) {
		binary.Write(&code, binary.LittleEndian, struct {
			Op, Regs byte
			Off      int16
			Imm      int32
		}{op, regs, off, imm})
	}
	const load, and, unless, jumpIf, set, leave = 0x61, 0x54, 0x55, 0x15, 0xb7, 0x95
	add(load, 0x12, 0, 0)
	add(and, 2, 0, 0xffff)
	add(load, 0x13, 4, 0)
	add(load, 0x14, 8, 0)
	add(jumpIf, 2, 2, 2)
	add(set, 0, 0, 0)
	add(leave, 0, 0, 0)
	for _, r := range rules {
		if r[1] < 0 {
			add(unless, 3, 2, int32(r[0]))
		} else {
			add(unless, 3, 3, int32(r[0]))
			add(unless, 4, 2, int32(r[1]))
		}
		add(set, 0, 0, 1)
		add(leave, 0, 0, 0)
	}
	add(set, 0, 0, 0)
	add(leave, 0, 0, 0)
	return code.Bytes()
}

func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := syscall.Syscall(321, cmd, uintptr(attr), size) // x86-64
	if errno != 0 {
		return -1, fmt.Errorf("bpf: %w", errno)
	}
	return int(fd), nil
}

func attachProgram(cgroup string, code []byte) error {
	licence := []byte("GPL\x00")
	load := struct {
		kind, count   uint32
		code, licence uint64
	}{15, uint32(len(code) / 8), uint64(uintptr(unsafe.Pointer(&code[0]))), uint64(uintptr(unsafe.Pointer(&licence[0])))}
	program, err := bpf(5, unsafe.Pointer(&load), unsafe.Sizeof(load))
	runtime.KeepAlive(code)
	runtime.KeepAlive(licence)
	if err != nil {
		return err
	}
	defer syscall.Close(program)
	dir, err := os.Open(cgroup)
	if err != nil {
		return err
	}
	defer dir.Close()
	attach := struct{ target, program, kind, flags uint32 }{uint32(dir.Fd()), uint32(program), 6, 0}
	_, err = bpf(8, unsafe.Pointer(&attach), unsafe.Sizeof(attach))
	return err
}

var controllers = []string{"devices", "memory", "pids", "cpu"}

// makeCgroup puts init into a cgroup of its own in each tree, when all numbers stand.
func makeCgroup(c *Container, pid int) error {
	if _, err := os.Stat(cgroups + "/cgroup.subtree_control"); err == nil { // version 2
		if err := write(cgroups+"/cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
			return err
		}
	}
	for _, each := range controllers {
		if err := os.MkdirAll(c.cgroup(each), 0755); err != nil {
			return err
		}
	}
	if err := limitDevices(c); err != nil {
		return err
	}
	if err := limitResources(c); err != nil {
		return err
	}
	for _, each := range controllers {
		if err := write(c.cgroup(each)+"/cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

func limitResources(c *Container) error {
	r := c.Config.Linux.Resources
	period := r.CPU.Period
	if period == 0 {
		period = 100000
	}
	var periodIfQuota int64
	if r.CPU.Quota > 0 {
		periodIfQuota = period
	}
	for _, l := range []struct {
		controller string
		limit      int64
		one, two   string // the files of version 1 and 2
	}{
		{"memory", r.Memory.Limit, "memory.limit_in_bytes", "memory.max"},
		{"pids", r.Pids.Limit, "pids.max", "pids.max"},
		{"cpu", periodIfQuota, "cpu.cfs_period_us", ""},
		{"cpu", r.CPU.Quota, "cpu.cfs_quota_us", "cpu.max"},
	} {
		if l.limit <= 0 {
			continue
		}
		file, text := c.cgroup(l.controller)+"/"+l.one, strconv.FormatInt(l.limit, 10)
		if _, err := os.Stat(file); err != nil {
			if l.two == "" {
				continue
			}
			file = c.cgroup(l.controller) + "/" + l.two
			if l.two == "cpu.max" {
				text += " " + strconv.FormatInt(period, 10)
			}
		}
		if err := write(file, text); err != nil {
			return err
		}
	}
	return nil
}

// wasKilledForMemory says if the OOM killer has killed a process of the container.
func (c *Container) wasKilledForMemory() bool {
	for _, name := range []string{"memory.oom_control", "memory.events"} {
		data, err := os.ReadFile(c.cgroup("memory") + "/" + name)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(data), "\n") {
			if words := strings.Fields(line); len(words) == 2 && words[0] == "oom_kill" {
				return words[1] != "0"
			}
		}
	}
	return false
}

// limitDevices lets the cgroup use these devices and no others.
func limitDevices(c *Container) error {
	rules := [][2]int{{5, 2}, {136, -1}} // terminals: /dev/ptmx, /dev/pts/*
	for _, each := range devices {
		rules = append(rules, each)
	}
	gpus, err := visibleGPUs(c.Config)
	if err != nil {
		return err
	}
	if len(gpus) > 0 {
		nodes, err := gpuNodes(gpus)
		if err != nil {
			return err
		}
		for _, each := range nodes {
			rules = append(rules, each)
		}
	}
	cgroup := c.cgroup("devices")
	if _, err := os.Stat(cgroup + "/devices.deny"); err == nil {
		if err := write(cgroup+"/devices.deny", "a"); err != nil {
			return err
		}
		for _, r := range rules {
			minor := "*"
			if r[1] >= 0 {
				minor = strconv.Itoa(r[1])
			}
			if err := write(cgroup+"/devices.allow", fmt.Sprintf("c %d:%s rwm", r[0], minor)); err != nil {
				return err
			}
		}
		return nil
	}
	return attachProgram(cgroup, deviceProgram(rules))
}

func changeRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("umount of the old root: %w", err)
	}
	return os.Chdir("/")
}

// enterNamespaces takes this thread into the namespaces that have a path.
func enterNamespaces(config *Config) error {
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil { // or a mount namespace lets no thread in
		return err
	}
	for _, each := range config.Linux.Namespaces {
		if each.Path == "" {
			continue
		}
		fd, err := syscall.Open(each.Path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", each.Path, err)
		}
		err = call("setns "+each.Path, 308, uintptr(fd), namespaceFlags[each.Type])
		syscall.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// connectConsole returns a connection to the engine's socket, or -1.
func connectConsole(c *Container) (int, error) {
	if !c.Config.Process.Terminal {
		return -1, nil
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: c.Console})
	}
	if err != nil {
		return -1, fmt.Errorf("console socket %s: %w", c.Console, err)
	}
	return fd, nil
}

func ioctl(what string, fd int, request, argument uintptr) error {
	return call(what, syscall.SYS_IOCTL, uintptr(fd), request, argument)
}

// useTerminal makes a terminal in the container's /dev/pts, and sends its other end to the engine.
func useTerminal(p Process, console int) error {
	if console < 0 {
		return nil
	}
	master, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/ptmx: %w", err)
	}
	var unlock, number int32
	if err := ioctl("unlock", master, syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock))); err != nil {
		return err
	}
	if err := ioctl("pts", master, syscall.TIOCGPTN, uintptr(unsafe.Pointer(&number))); err != nil {
		return err
	}
	slave, err := syscall.Open(fmt.Sprintf("/dev/pts/%d", number), syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/pts/%d: %w", number, err)
	}
	if size := p.ConsoleSize; size != nil {
		ws := [4]uint16{size.Height, size.Width}
		ioctl("size", master, syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&ws)))
	}
	if err := syscall.Sendmsg(console, []byte("/dev/ptmx"), syscall.UnixRights(master), nil, 0); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	syscall.Close(console)
	syscall.Close(master)
	if _, err := syscall.Setsid(); err != nil {
		return fmt.Errorf("setsid: %w", err)
	}
	if err := ioctl("controlling terminal", slave, syscall.TIOCSCTTY, 0); err != nil {
		return err
	}
	for fd := 0; fd < 3; fd++ {
		if err := syscall.Dup3(slave, fd, 0); err != nil {
			return err
		}
	}
	syscall.Fchown(0, p.User.UID, -1)
	return nil
}

// findCommand fails if there is no such program: create is to say so, not start.
func findCommand(p Process) error {
	if len(p.Args) == 0 {
		return errors.New("process.args is empty")
	}
	if err := os.MkdirAll(p.Cwd, 0755); err != nil {
		return err
	}
	if err := os.Chdir(p.Cwd); err != nil {
		return err
	}
	os.Setenv("PATH", "")
	for _, each := range p.Env {
		if value, ok := cutPrefix(each, "PATH="); ok {
			os.Setenv("PATH", value)
		}
	}
	name := p.Args[0]
	if _, err := exec.LookPath(name); err != nil {
		if _, e := os.Stat(name); e == nil && strings.Contains(name, "/") {
			return failed{fmt.Sprintf("exec: %q: permission denied", name), 126}
		}
		return failed{fmt.Sprintf("exec: %q: executable file not found in $PATH", name), 127}
	}
	return nil
}

func initMain(directory string) int {
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	r := newChannel(os.NewFile(3, "to-init"), os.NewFile(4, "from-init"), "the runtime")
	c := &Container{}
	if err := readJSON(directory+"/container.json", c); err != nil {
		return r.fail(err)
	}
	return r.fail(become(c, r))
}

func become(c *Container, r *channel) error {
	syscall.Umask(0)
	fifo, console := -1, -1
	for _, step := range []func() error{
		func() (err error) {
			fifo, err = syscall.Open(c.fifo(), syscall.O_RDWR|syscall.O_CLOEXEC, 0)
			return err
		},
		func() (err error) {
			console, err = connectConsole(c)
			return err
		},
		func() error { return enterNamespaces(c.Config) },
		isolateMounts,
		func() error { return mountRoot(c) },
		func() error { return mountAll(c) },
		func() error { return makeDevices(c.root()) },
		func() error {
			if c.Config.Hostname == "" {
				return nil
			}
			return syscall.Sethostname([]byte(c.Config.Hostname))
		},
		func() error { return r.say("RUN_HOOKS") },
		func() error { return r.expect("HOOKS_DONE") },
		func() error { return changeRoot(c.root()) },
		func() error { return useTerminal(c.Config.Process, console) },
		func() error { return hide(c.Config) },
		func() error { return findCommand(c.Config.Process) },
		func() error { return dropPrivileges(c.Config) },
		func() error { return prctl("pdeathsig", syscall.PR_SET_PDEATHSIG, 0) },
		func() error { return r.say("CREATED") },
		func() error {
			for {
				if _, err := syscall.Read(fifo, make([]byte, 1)); err != syscall.EINTR {
					return err
				}
			}
		},
		func() error { return execute(c.Config.Process) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// This process's first thread is the one that has a death signal, and that becomes the command.
func init() { runtime.LockOSThread() }

func writeLog(o *options, err error) {
	line, _ := json.Marshal(map[string]string{"level": "error", "msg": err.Error(), "time": time.Now().UTC().Format(time.RFC3339)})
	if f, e := os.OpenFile(o.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0600); e == nil {
		f.Write(append(line, '\n'))
		f.Close()
	}
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "init" {
		os.Exit(initMain(os.Args[2]))
	}
	o := &options{}
	global := flag.NewFlagSet("level9", flag.ExitOnError)
	global.StringVar(&o.root, "root", state, "the directory of the containers")
	global.StringVar(&o.log, "log", "/dev/null", "")
	global.StringVar(&o.logFormat, "log-format", "", "")
	global.BoolVar(&o.systemd, "systemd-cgroup", false, "")
	global.Parse(os.Args[1:])
	commands := map[string]func(*options) (int, error){"run": run, "create": create, "start": start,
		"state": printState, "kill": kill, "delete": remove,
		"hook": func(o *options) (int, error) { return 1, hookMain(o.root) }}
	do, ok := commands[global.Arg(0)]
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: level9 [--root DIR] run|create|start|state|kill|delete ...")
		os.Exit(1)
	}
	fs := flag.NewFlagSet(global.Arg(0), flag.ExitOnError)
	fs.StringVar(&o.bundle, "bundle", ".", "")
	fs.StringVar(&o.bundle, "b", ".", "")
	fs.StringVar(&o.pidFile, "pid-file", "", "")
	fs.StringVar(&o.console, "console-socket", "", "")
	fs.BoolVar(&o.noPivot, "no-pivot", false, "")
	fs.BoolVar(&o.noKeyring, "no-new-keyring", false, "")
	fs.BoolVar(&o.all, "all", false, "")
	fs.BoolVar(&o.all, "a", false, "")
	fs.BoolVar(&o.force, "force", false, "")
	fs.BoolVar(&o.force, "f", false, "")
	fs.Parse(global.Args()[1:])
	o.id, o.signal = fs.Arg(0), "TERM"
	if fs.NArg() > 1 {
		o.signal = fs.Arg(1)
	}
	status, err := do(o)
	if err != nil {
		if global.Arg(0) == "hook" {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		writeLog(o, err)
		os.Exit(fail(err))
	}
	if global.Arg(0) == "hook" {
		status = 0
	}
	os.Exit(status)
}
