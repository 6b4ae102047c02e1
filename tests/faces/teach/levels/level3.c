/* Level 3 of the ladder in C: runtime and init agree over two FIFOs. test_languages.py compiles it and
 * lets `minirun level check 3 -- ./level3` ask the kernel about it. Two ways are chosen by a definition:
 *
 *     SECOND_THREAD   another thread than the first one clones init
 *     DETACHED        the overlay is made by fsopen(2) and move_mount(2)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/run/ladder-XXXXXX", path[512], root[512];
static int to_runtime;

static char *in(const char *folder, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The error goes to the runtime: its status, then its text. */
static void fail(int status, const char *what)
{
    dprintf(to_runtime, "error %d %s: %s\n", status, what, strerror(errno));
    _exit(status);
}

static void must(int result, const char *what)
{
    if (result == -1)
        fail(1, what);
}

#ifdef DETACHED
/* By the calls of Linux 5.2: the mount lies nowhere until it is moved. */
static void make_overlay(const char *layers, const char *upper, const char *work)
{
    enum { SET_STRING = 1, CREATE = 6, FROM_EMPTY_PATH = 4 };
    const char *options[][2] = {{"lowerdir", layers}, {"upperdir", upper}, {"workdir", work}};
    int context = syscall(SYS_fsopen, "overlay", 0), made;

    must(context, "fsopen");
    for (int i = 0; i < 3; i++)
        must(syscall(SYS_fsconfig, context, SET_STRING, options[i][0], options[i][1], 0), layers);
    must(syscall(SYS_fsconfig, context, CREATE, NULL, NULL, 0), layers);
    must(made = syscall(SYS_fsmount, context, 0, 0), "fsmount");
    must(syscall(SYS_move_mount, made, "", AT_FDCWD, root, FROM_EMPTY_PATH), root);
    close(made);
    close(context);
}
#endif

static void build(const char *layers)
{
    static const struct { const char *name; int minor; } nodes[] = {
        {"dev/null", 3}, {"dev/zero", 5}, {"dev/full", 7}, {"dev/random", 8}, {"dev/urandom", 9}};
    char data[4096], upper[512], work[512];

    must(mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    snprintf(upper, sizeof upper, "%s", in(directory, "upper"));
    snprintf(work, sizeof work, "%s", in(directory, "work"));
    must(mkdir(upper, 0755), "upper");
    must(mkdir(work, 0755), "work");
    must(mkdir(root, 0755), "rootfs");
    snprintf(data, sizeof data, "lowerdir=%s,upperdir=%s,workdir=%s", layers, upper, work);
#ifdef DETACHED
    make_overlay(layers, upper, work);
#else
    must(mount("overlay", root, "overlay", 0, data), layers);
#endif
    mkdir(in(root, "proc"), 0755);
    must(mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
    mkdir(in(root, "dev"), 0755);
    must(mount("tmpfs", path, "tmpfs", MS_NOSUID, "mode=755"), "dev");
    mkdir(in(root, "sys"), 0755);
    must(mount("sysfs", path, "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL), "sys");
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        must(mknod(in(root, nodes[i].name), S_IFCHR | 0666, makedev(1, nodes[i].minor)), path);
    must(mknod(in(root, "dev/tty"), S_IFCHR | 0666, makedev(5, 0)), path);
    must(mkdir(in(root, "dev/pts"), 0755), path);
    must(mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666"), path);
    must(symlink("/proc/self/fd", in(root, "dev/fd")), path);
}

static void init(const char *hostname, const char *layers, char **command, int from_runtime)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    umask(0);
    build(layers);
    must(sethostname(hostname, strlen(hostname)), "sethostname");
    dprintf(to_runtime, "RUN_HOOKS\n");
    if (read(from_runtime, &byte, 1) != 1)
        _exit(1); /* the runtime has died */
    must(chdir(root), "chdir");
    must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    must(umount2(".", MNT_DETACH), "umount");
    must(chdir("/"), "chdir");
    umask(022);
    execvp(command[0], command);
    fail(errno == ENOENT ? 127 : 126, command[0]);
}

/* Return the exit status if init sent an error, 0 if it is ready or has executed, -1 at the end. */
static int hear(FILE *from_init)
{
    char line[4096], *text;
    int status;

    if (!fgets(line, sizeof line, from_init))
        return -1;
    if (strncmp(line, "error ", 6))
        return 0;
    status = strtol(line + 6, &text, 10);
    fprintf(stderr, "level 3:%s", text);
    return status;
}

static void clean(void)
{
    const char *names[] = {"from-init.fifo", "to-init.fifo"};

    for (int i = 0; i < 2; i++)
        unlink(in(directory, names[i]));
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command))
        fprintf(stderr, "level 3: %s is left\n", directory);
}

static int whole(int argc, char **argv)
{
    int ends[4], status = 1, heard, wait_status = 0;
    const char *names[] = {"from-init.fifo", "to-init.fifo"}, *hostname = "level3";

    if (argc > 3 && !strcmp(argv[2], "--hostname")) {
        hostname = argv[3];
        memmove(argv + 2, argv + 4, (argc - 3) * sizeof *argv);
        argc -= 2;
    }
    if (argc < 4 || strcmp(argv[1], "run")) {
        fprintf(stderr, "usage: level3 run [--hostname NAME] LOWERDIR COMMAND ...\n");
        return 2;
    }
    if (!mkdtemp(directory))
        return 1;
    snprintf(root, sizeof root, "%s/rootfs", directory);
    for (int i = 0; i < 2; i++) { /* all ends before clone: open of one alone would wait */
        mkfifo(in(directory, names[i]), 0600);
        ends[2 * i] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        ends[2 * i + 1] = open(path, O_WRONLY | O_CLOEXEC);
        fcntl(ends[2 * i], F_SETFL, 0);
    }
    signal(SIGPIPE, SIG_IGN);
    pid_t pid = syscall(SYS_clone, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | SIGCHLD,
                        0, 0, 0, 0);
    if (pid == 0) {
        close(ends[0]);
        close(ends[3]);
        to_runtime = ends[1];
        signal(SIGPIPE, SIG_DFL);
        init(hostname, argv[2], argv + 3, ends[2]);
    }
    close(ends[1]);
    close(ends[2]);
    FILE *from_init = fdopen(ends[0], "r");
    heard = hear(from_init);
    if (heard == 0 && write(ends[3], "\n", 1) == 1) {
        heard = hear(from_init);
        if (heard == -1) { /* exec has closed init's end */
            waitpid(pid, &wait_status, 0);
            status = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
            clean();
            return status;
        }
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    clean();
    if (heard == -1)
        fprintf(stderr, "level 3: init has died\n");
    return heard > 0 ? heard : 1;
}

static int words, status;

static void *in_a_thread(void *argv)
{
    status = whole(words, argv);
    return NULL;
}

int main(int argc, char **argv)
{
#ifdef SECOND_THREAD
    pthread_t thread;

    words = argc;
    if (pthread_create(&thread, NULL, in_a_thread, argv) || pthread_join(thread, NULL))
        return 1;
    return status;
#else
    words = argc;
    in_a_thread(argv);
    return status;
#endif
}
