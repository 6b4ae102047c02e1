/* Makes every system call, three ways, with arguments that no call can use, and prints what it said.
 *
 *     64 NUMBER ERRNO     syscall
 *     x32 NUMBER ERRNO    syscall with x32's bit
 *     32 NUMBER ERRNO     int $0x80
 *
 * -1 stands for success, 1000 + N for an end by signal N. Each call is a child's. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAST = 470, X32 = 0x40000000 };
/* they end or make a process, wait for a signal, or write all disks */
static const int not64[] = {15, 34, 56, 57, 58, 60, 162, 231, 435};
static const int not32[] = {1, 2, 29, 36, 72, 119, 120, 173, 190, 252, 435};

static int in(int number, const int *list, int count) {
    while (count--)
        if (list[count] == number) return 1;
    return 0;
}

static long by_interrupt(long number) {
    long result;
    __asm__ volatile("push %%rbp; mov $-1, %%rbp; int $0x80; pop %%rbp"
                     : "=a"(result)
                     : "a"(number), "b"(-1L), "c"(-1L), "d"(-1L), "S"(-1L), "D"(-1L)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static int one(int way, int number) {
    int ends[2], answer = -2, status;
    if (pipe(ends)) exit(3);
    pid_t child = fork();
    if (!child) {
        alarm(3);
        long result = way == 32 ? by_interrupt(number)
                                : syscall(number | (way == 33 ? X32 : 0), -1, -1, -1, -1, -1, -1);
        int code = way == 32 ? (result < 0 && result > -4096 ? (int)-result : -1)
                             : (result == -1 ? errno : -1);
        if (write(ends[1], &code, sizeof code) != sizeof code) _exit(1);
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &answer, sizeof answer) != sizeof answer) answer = -2;
    close(ends[0]);
    waitpid(child, &status, 0);
    if (answer == -2 && WIFSIGNALED(status)) answer = 1000 + WTERMSIG(status);
    return answer;
}

int main(void) {
    for (int number = 0; number <= LAST; number++) {
        if (!in(number, not64, sizeof not64 / sizeof *not64)) {
            printf("64 %d %d\n", number, one(64, number));
            printf("x32 %d %d\n", number, one(33, number));
        }
        if (!in(number, not32, sizeof not32 / sizeof *not32))
            printf("32 %d %d\n", number, one(32, number));
    }
    return 0;
}
