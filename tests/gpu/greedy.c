/* Stands where ldconfig stands and takes what it can get; the first letter of /etc/mode says what. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *nodes[] = {"/zero", "/null", "/disk", "/link", "/mounted/zero", "/var/zero"};

int main(void) {
    char mode = 0, block[65536];
    size_t total = 0;
    int fd = open("/etc/mode", O_RDONLY);
    if (fd < 0 || read(fd, &mode, 1) != 1)
        return 2;
    if (mode == 'm') {
        for (char *memory; (memory = malloc(1 << 20)); total++)
            memset(memory, 1, 1 << 20);
        dprintf(2, "MiB %zu %s\n", total, strerror(errno));
    } else if (mode == 'c') {
        for (;;)
            ;
    } else if (mode == 'f') {
        fd = open("/etc/large", O_CREAT | O_WRONLY, 0600);
        lseek(fd, 1 << 30, SEEK_SET);
        ssize_t written = write(fd, "x", 1);
        dprintf(2, "write %zd %s\n", written, strerror(errno));
    } else if (mode == 'd') {
        for (size_t at = 0; at < sizeof nodes / sizeof *nodes; at++) {
            int node = open(nodes[at], O_RDONLY);
            dprintf(2, "%s %s\n", nodes[at], node < 0 ? strerror(errno) : "OPEN");
        }
    } else if (mode == 'n') {
        memset(block, 'x', sizeof block);
        for (int at = 0; at < 200; at++)
            write(2, block, sizeof block);
        dprintf(2, "\n\033]0;title\007\033[31mred\xff\xfe\r end");
    }
    return 1;
}
