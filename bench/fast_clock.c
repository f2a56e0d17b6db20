/* Loaded before the C library (LD_PRELOAD): a time of day that goes FAST_CLOCK times as fast as the machine's, since the moment
   (seconds of 1970) that FAST_CLOCK_SINCE says, and so for the times of files. What counts from the start of the machine stays as
   it is. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))

static double number(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

static void hasten(struct timespec *at) {
    static double rate, since;
    if (!rate) {
        since = number("FAST_CLOCK_SINCE", 0);
        rate = number("FAST_CLOCK", 1);
    }
    double passed = (at->tv_sec - since) + at->tv_nsec / 1e9;
    if (passed <= 0 || rate == 1)
        return;
    passed *= rate;
    at->tv_sec = (time_t)(since + passed);
    at->tv_nsec = (long)((since + passed - (double)at->tv_sec) * 1e9);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = REAL("clock_gettime", int (*)(clockid_t, struct timespec *));
    int failed = real(which, now);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        hasten(now);
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

static int hastened(int failed, struct stat *found) {
    if (!failed) {
        hasten(&found->st_mtim);
        hasten(&found->st_ctim);
    }
    return failed;
}

int stat(const char *restrict path, struct stat *restrict found) {
    return hastened(REAL("stat", int (*)(const char *, struct stat *))(path, found), found);
}

int lstat(const char *restrict path, struct stat *restrict found) {
    return hastened(REAL("lstat", int (*)(const char *, struct stat *))(path, found), found);
}

int fstat(int file, struct stat *found) {
    return hastened(REAL("fstat", int (*)(int, struct stat *))(file, found), found);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict found, int flags) {
    return hastened(REAL("fstatat", int (*)(int, const char *, struct stat *, int))(folder, path, found, flags), found);
}

/* 64 bits are the only ones that there are here: the same by another name. */
int stat64(const char *restrict path, struct stat64 *restrict found) { return stat(path, (struct stat *)found); }
int lstat64(const char *restrict path, struct stat64 *restrict found) { return lstat(path, (struct stat *)found); }
int fstat64(int file, struct stat64 *found) { return fstat(file, (struct stat *)found); }
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict found, int flags) {
    return fstatat(folder, path, (struct stat *)found, flags);
}

static void hasten_x(struct statx_timestamp *at) {
    struct timespec plain = {.tv_sec = at->tv_sec, .tv_nsec = at->tv_nsec};
    hasten(&plain);
    at->tv_sec = plain.tv_sec;
    at->tv_nsec = (unsigned)plain.tv_nsec;
}

int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict found) {
    int failed = REAL("statx", int (*)(int, const char *, int, unsigned, struct statx *))(folder, path, flags, mask, found);
    if (!failed) {
        hasten_x(&found->stx_mtime);
        hasten_x(&found->stx_ctime);
        hasten_x(&found->stx_btime);
    }
    return failed;
}
