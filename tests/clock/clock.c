/* A wall clock that a test can make to jump. Preloaded into a program, it adds an offset to every reading of
 * CLOCK_REALTIME. The offset, nanoseconds as a native 64-bit integer, is in the file that LIMO_TESTS_CLOCK names; the
 * file is mapped, so a change is seen at once. Monotonic clocks are left alone. Build with `cc -shared -fPIC`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL

static const volatile int64_t *offset;

__attribute__((constructor)) static void open_clock(void) {
    const char *name = getenv("LIMO_TESTS_CLOCK");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) {
        offset = page;
    }
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    /* The raw call: `dlsym` is not safe before every library is initialised. */
    int failed = (int)syscall(SYS_clock_gettime, clock, out);
    if (failed || !offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) {
        return failed;
    }
    int64_t shifted = (int64_t)out->tv_sec * NS + out->tv_nsec + *offset;
    int64_t rest = ((shifted % NS) + NS) % NS;
    out->tv_sec = (time_t)((shifted - rest) / NS);
    out->tv_nsec = (long)rest;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) {
        return -1;
    }
    out->tv_sec = now.tv_sec;
    out->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) {
        return (time_t)-1;
    }
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
