/* Stands where ldconfig stands and tells what it sees: one "name value" a line, on stderr. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static int entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    if (!folder)
        return -1;
    while (readdir(folder))
        count++;
    return count - 2;
}

int main(int argc, char **argv) {
    unsigned header[2] = {0x20080522, 0}, data[6] = {0};
    int variables = 0, descriptors = 0;
    syscall(SYS_capget, header, data);
    while (environ[variables])
        variables++;
    for (int fd = 3; fd < 1024; fd++)
        descriptors += fcntl(fd, F_GETFD) != -1;
    dprintf(2, "pid %d\neffective %x\nvariables %d\ndescriptors %d\n", getpid(), data[0], variables, descriptors);
    dprintf(2, "proc %d\nsys %d\ndev %d\n", entries("/proc"), entries("/sys"), entries("/dev"));
    dprintf(2, "host %d\nup %d\n", access("/etc/machine-id", F_OK), access("../../../../etc/machine-id", F_OK));
    dprintf(2, "mknod %d\n", mknod("/etc/null", S_IFCHR | 0666, 0x103));
    dprintf(2, "argv");
    for (int at = 0; at < argc; at++)
        dprintf(2, " %s", argv[at]);
    dprintf(2, "\n");
    return 0;
}
