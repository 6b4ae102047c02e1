#define _GNU_SOURCE
/* In a container with CAP_SYS_PTRACE: looks at every other process, over and over, and writes what
 * it finds, each finding once: the secret in its environment or memory, files of the host that it
 * has open, capabilities beyond those of this process. */

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET "swordfish"

static char buffer[1 << 20];
static unsigned long long own_caps;
static int only_looks;

static void say(const char *what, const char *detail)
{
    static char seen[1000][300];
    static int count;
    char line[300];
    snprintf(line, sizeof line, "%s %s", what, detail);
    for (int i = 0; i < count; i++)
        if (!strcmp(seen[i], line))
            return;
    if (count < 1000)
        strcpy(seen[count++], line);
    puts(line);
    fflush(stdout);
}

static ssize_t content(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return -1;
    ssize_t size = 0, got;
    while (size < (ssize_t)sizeof buffer - 1 && (got = read(fd, buffer + size, sizeof buffer - 1 - size)) > 0)
        size += got;
    close(fd);
    buffer[size] = 0;
    return size;
}

static unsigned long long caps(const char *pid, const char *set)
{
    char path[64], *at;
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    if (content(path) <= 0 || !(at = strstr(buffer, set)))
        return 0;
    return strtoull(at + strlen(set), NULL, 16);
}

static void descriptors(const char *pid)
{
    char path[64], name[400], target[256];
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        ssize_t size = readlink(name, target, sizeof target - 1);
        if (size <= 0)
            continue;
        target[size] = 0;
        if (target[0] == '/' && strncmp(target, "/dev/", 5) && strncmp(target, "/memfd:", 7)
            && strncmp(target, "/proc", 5)) {
            say("file", target);
            int fd = only_looks ? -1 : open(name, O_WRONLY | O_APPEND);
            if (fd >= 0) {
                say("writable", target);
                close(fd);
            }
        }
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    char self[16], path[64], hex[32];
    snprintf(self, sizeof self, "%d", getpid());
    only_looks = argc > 1;  /* opening a FIFO would disturb who waits there */
    (void)argv;
    own_caps = caps("self", "CapBnd:");
    say("started", "");
    for (;;) {
        DIR *proc = opendir("/proc");
        for (struct dirent *entry; (entry = readdir(proc));) {
            const char *pid = entry->d_name;
            if (pid[0] < '0' || pid[0] > '9' || !strcmp(pid, self) || !strcmp(pid, "1"))
                continue;
            say("seen", "");
            snprintf(path, sizeof path, "/proc/%s/environ", pid);
            ssize_t size = content(path);
            if (size > 0 && memmem(buffer, size, SECRET, strlen(SECRET)))
                say("environ", SECRET);
            descriptors(pid);
            for (int i = 0; i < 2; i++) {
                const char *set = i ? "CapBnd:" : "CapEff:";
                unsigned long long more = caps(pid, set) & ~own_caps;
                snprintf(hex, sizeof hex, "%s%llx", set, more);
                if (more)
                    say("caps", hex);
            }
        }
        closedir(proc);
    }
}
