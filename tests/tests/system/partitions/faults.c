/* Preloaded into a process under test: its clock can be set, and its disk be full, by what a shared page says. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct page {
    volatile long milliseconds;
    volatile long full;
};

static struct page *page;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TENURE_TEST_FAULTS");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) page = mapped;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && page) {
        long nanoseconds = time->tv_nsec + (page->milliseconds % 1000) * 1000000;
        time->tv_sec += page->milliseconds / 1000;
        if (nanoseconds < 0) time->tv_sec--, nanoseconds += 1000000000;
        if (nanoseconds >= 1000000000) time->tv_sec++, nanoseconds -= 1000000000;
        time->tv_nsec = nanoseconds;
    }
    return result;
}

/* What is logged is no file of the data folder's that matters. */
static int is_full(int fd) {
    struct stat found;
    return page && page->full && fd != 2 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    if (is_full(fd)) return errno = ENOSPC, -1;
    return syscall(SYS_write, fd, bytes, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) {
    if (is_full(fd)) return errno = ENOSPC, -1;
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}
