/* Makes the calls that a filter judges by their arguments; prints each one's errno, 0 for success. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tell(const char *what, long result) { printf("%s %d\n", what, result < 0 ? errno : 0); }

int main(void) {
    static const unsigned long persona[] = {0, 8, 0x20000, 0x20008, 0xffffffff, 0x40000, 1};
    static const unsigned long family[] = {1, 2, 16, 38, 40, (1UL << 32) + 38, (1UL << 32) + 40};
    char name[40];
    for (unsigned i = 0; i < sizeof persona / sizeof *persona; i++) {
        sprintf(name, "personality %#lx", persona[i]);
        tell(name, syscall(SYS_personality, persona[i]));
    }
    for (unsigned i = 0; i < sizeof family / sizeof *family; i++) {
        sprintf(name, "socket %#lx", family[i]);
        tell(name, syscall(SYS_socket, family[i], family[i] == 16 ? 3 : 1, 0));
    }
    tell("netlink audit", syscall(SYS_socket, 16, 3, 9));
    tell("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
    tell("bpf", syscall(SYS_bpf, -1, 0, 0));
    tell("perf_event_open", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
    tell("kcmp", syscall(SYS_kcmp, 0, 0, -1, 0, 0));
    tell("unshare", syscall(SYS_unshare, 0x10000000));
    return 0;
}
