// Level 2 of the ladder in Rust, without a crate: what std lacks of the system calls is libc's.
//
//     level2 run [--hostname NAME] LAYERS COMMAND …
//
// unshare(2) and a second fork in place of clone: the process between waits for the command.

use std::env;
use std::ffi::CString;
use std::fs::{create_dir, create_dir_all, remove_dir, remove_dir_all, DirBuilder};
use std::io;
use std::os::raw::{c_char, c_int, c_long, c_uint, c_ulong};
use std::os::unix::fs::{symlink, DirBuilderExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

extern "C" {
    fn mount(
        source: *const c_char, target: *const c_char, kind: *const c_char, flags: c_ulong,
        data: *const c_char,
    ) -> c_int;
    fn umount2(target: *const c_char, flags: c_int) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn mknod(path: *const c_char, mode: c_uint, device: u64) -> c_int;
    fn sethostname(name: *const c_char, length: usize) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn umask(mask: c_uint) -> c_uint;
    fn _exit(status: c_int) -> !;
}

const NEW: c_int = 0x0002_0000 | 0x2000_0000 | 0x0400_0000 | 0x0800_0000; // mount, pid, uts, ipc
const RDONLY: c_ulong = 1;
const NOSUID: c_ulong = 2;
const NODEV: c_ulong = 4;
const NOEXEC: c_ulong = 8;
const REC: c_ulong = 0x4000;
const PRIVATE: c_ulong = 1 << 18;
const DETACH: c_int = 2;
#[cfg(target_arch = "x86_64")]
const PIVOT_ROOT: c_long = 155;
#[cfg(not(target_arch = "x86_64"))]
const PIVOT_ROOT: c_long = 41;

type Done = Result<(), String>;

fn c(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

fn checked(result: i64, what: &str) -> Done {
    match result {
        -1 => Err(format!("{}: {}", what, io::Error::last_os_error())),
        _ => Ok(()),
    }
}

fn said(result: io::Result<()>, what: &str) -> Done {
    result.map_err(|error| format!("{}: {}", what, error))
}

fn do_mount(source: &str, target: &Path, kind: &str, flags: c_ulong, data: &str) -> Done {
    let target = target.to_str().expect("UTF-8");
    let words = [c(source), c(target), c(kind), c(data)];
    let result = unsafe {
        mount(words[0].as_ptr(), words[1].as_ptr(), words[2].as_ptr(), flags, words[3].as_ptr())
    };
    checked(result.into(), &format!("mount {} on {}", kind, target))
}

fn build(directory: &Path, layers: &str) -> Done {
    let root = directory.join("rootfs");
    do_mount("", Path::new("/"), "", REC | PRIVATE, "")?;
    for name in ["upper", "work"] {
        said(DirBuilder::new().mode(0o755).create(directory.join(name)), name)?;
    }
    let data = format!(
        "lowerdir={},upperdir={}/upper,workdir={}/work",
        layers, directory.display(), directory.display()
    );
    do_mount("overlay", &root, "overlay", 0, &data)?;
    let plain = NOSUID | NODEV | NOEXEC;
    for (name, kind, flags, data) in [
        ("proc", "proc", plain, ""),
        ("dev", "tmpfs", NOSUID, "mode=755"),
        ("dev/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=0620"),
        ("dev/shm", "tmpfs", plain, "mode=1777"),
        ("sys", "sysfs", plain | RDONLY, ""),
    ] {
        let target = root.join(name);
        said(create_dir_all(&target), name)?;
        do_mount(kind, &target, kind, flags, data)?;
    }
    for (name, major, minor) in
        [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)]
    {
        let path = c(&format!("{}/dev/{}", root.display(), name));
        let result = unsafe { mknod(path.as_ptr(), 0o020_666, major << 8 | minor) };
        checked(result.into(), name)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"), ("ptmx", "pts/ptmx"),
    ] {
        said(symlink(target, root.join("dev").join(name)), name)?;
    }
    Ok(())
}

fn change_root(root: &Path) -> Done {
    said(env::set_current_dir(root), "chdir")?;
    let here = c(".");
    unsafe {
        checked(syscall(PIVOT_ROOT, here.as_ptr(), here.as_ptr()), "pivot_root")?;
        checked(umount2(here.as_ptr(), DETACH).into(), "umount of the old root")?;
    }
    said(env::set_current_dir("/"), "chdir")
}

fn prepare(directory: &Path, hostname: &str, layers: &str) -> Done {
    unsafe { umask(0) };
    build(directory, layers)?;
    let name = c(hostname);
    checked(unsafe { sethostname(name.as_ptr(), hostname.len()) }.into(), "sethostname")?;
    change_root(&directory.join("rootfs"))
}

// Become the command; return the exit status if that fails. exec() lets SIGPIPE end a program again.
fn init(directory: &Path, hostname: &str, layers: &str, command: &[String]) -> c_int {
    if let Err(text) = prepare(directory, hostname, layers) {
        eprintln!("level 2: {}", text);
        return 1;
    }
    unsafe { umask(0o022) };
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    eprintln!("level 2: {}: {}", command[0], error);
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

fn wait_for(pid: c_int) -> c_int {
    let mut status: c_int = 0;
    if unsafe { waitpid(pid, &mut status, 0) } == -1 {
        return 1;
    }
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

fn in_between(directory: &Path, hostname: &str, layers: &str, command: &[String]) -> c_int {
    if let Err(text) = checked(unsafe { unshare(NEW) }.into(), "unshare") {
        eprintln!("level 2: {}", text);
        return 1;
    }
    match unsafe { fork() } {
        -1 => 1,
        0 => unsafe { _exit(init(directory, hostname, layers, command)) },
        pid => wait_for(pid),
    }
}

fn run(hostname: &str, layers: &str, command: &[String]) -> Result<c_int, io::Error> {
    let state = PathBuf::from("/run/ladder");
    if !state.is_dir() {
        DirBuilder::new().mode(0o700).create(&state)?;
    }
    let directory = state.join(format!("rust-{}", std::process::id()));
    create_dir(&directory)?;
    create_dir(directory.join("rootfs"))?;
    let status = match unsafe { fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => unsafe { _exit(in_between(&directory, hostname, layers, command)) },
        pid => wait_for(pid),
    };
    remove_dir(directory.join("rootfs"))?; // not if it is mounted on
    remove_dir_all(&directory)?;
    Ok(status)
}

fn main() {
    let mut words: Vec<String> = env::args().skip(1).collect();
    let mut hostname = String::from("level2");
    if words.len() > 2 && words[1] == "--hostname" {
        hostname = words.remove(2);
        words.remove(1);
    }
    if words.len() < 3 || words[0] != "run" {
        eprintln!("usage: level2 run [--hostname NAME] LAYERS COMMAND …");
        exit(2);
    }
    match run(&hostname, &words[1], &words[2..]) {
        Ok(status) => exit(status),
        Err(error) => {
            eprintln!("level 2: {}", error);
            exit(1);
        }
    }
}
