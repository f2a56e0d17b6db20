/* Loaded before the C library (LD_PRELOAD): a time of day that is moved on by steps, as the file MOVED_CLOCK says, and with it the times
   of files, each by what had been moved when it was written. What counts from the start of the machine stays as it is. The file: how
   many steps there are (64 bits), then of each the machine's own time of day and by how many seconds it is off from then on. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))

struct step {
    double from, by;
};

struct steps {
    uint64_t count;
    struct step all[];
};

static const struct steps *steps(void) {
    static const struct steps none = {0}, *found;
    if (!found) {
        const char *path = getenv("MOVED_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        off_t size = file < 0 ? 0 : lseek(file, 0, SEEK_END);
        void *map = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
        if (file >= 0)
            close(file);
        found = map == MAP_FAILED ? &none : map;
    }
    return found;
}

static void move(struct timespec *at) {
    const struct steps *known = steps();
    double when = at->tv_sec + at->tv_nsec / 1e9;
    uint64_t low = 0, high = known->count;
    while (low < high) { /* the first step that came later */
        uint64_t middle = (low + high) / 2;
        if (known->all[middle].from <= when)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return;
    double by = known->all[low - 1].by;
    long whole = (long)by;
    at->tv_sec += whole;
    at->tv_nsec += (long)((by - (double)whole) * 1e9);
    if (at->tv_nsec >= 1000000000L) {
        at->tv_sec++;
        at->tv_nsec -= 1000000000L;
    }
}

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = REAL("clock_gettime", int (*)(clockid_t, struct timespec *));
    int failed = real(which, now);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        move(now);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found))
        return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found))
        return -1;
    if (to)
        *to = found.tv_sec;
    return found.tv_sec;
}

static int moved(int failed, struct stat *found) {
    if (!failed) {
        move(&found->st_mtim);
        move(&found->st_ctim);
    }
    return failed;
}

int stat(const char *restrict path, struct stat *restrict found) {
    return moved(REAL("stat", int (*)(const char *, struct stat *))(path, found), found);
}

int lstat(const char *restrict path, struct stat *restrict found) {
    return moved(REAL("lstat", int (*)(const char *, struct stat *))(path, found), found);
}

int fstat(int file, struct stat *found) {
    return moved(REAL("fstat", int (*)(int, struct stat *))(file, found), found);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict found, int flags) {
    return moved(REAL("fstatat", int (*)(int, const char *, struct stat *, int))(folder, path, found, flags), found);
}

/* 64 bits are the only ones that there are here: the same by another name. */
int stat64(const char *restrict path, struct stat64 *restrict found) { return stat(path, (struct stat *)found); }
int lstat64(const char *restrict path, struct stat64 *restrict found) { return lstat(path, (struct stat *)found); }
int fstat64(int file, struct stat64 *found) { return fstat(file, (struct stat *)found); }
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict found, int flags) {
    return fstatat(folder, path, (struct stat *)found, flags);
}

static void move_x(struct statx_timestamp *at) {
    struct timespec plain = {.tv_sec = at->tv_sec, .tv_nsec = at->tv_nsec};
    move(&plain);
    at->tv_sec = plain.tv_sec;
    at->tv_nsec = (unsigned)plain.tv_nsec;
}

int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict found) {
    int failed = REAL("statx", int (*)(int, const char *, int, unsigned, struct statx *))(folder, path, flags, mask, found);
    if (!failed) {
        move_x(&found->stx_mtime);
        move_x(&found->stx_ctime);
        move_x(&found->stx_btime);
    }
    return failed;
}
