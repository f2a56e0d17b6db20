/* Loaded before the C library (LD_PRELOAD): another time of day than the machine's, by as many seconds as the file OTHER_TIME says.
   What counts from the start of the machine stays as it is, as when a clock is set. A wait until a time of day ends when that
   other clock says so, also where it is set in the meantime: librdkafka waits so, and would else wait for hours here, by the
   machine's clock, for what is a second off by the other. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

static long by(void) {
    long seconds = 0;
    const char *path = getenv("OTHER_TIME");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1)
            seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        now->tv_sec += by();
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

#define SECOND 1000000000LL
#define SLICE (SECOND / 10)

static long long left(const struct timespec *until) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (until->tv_sec - now.tv_sec) * SECOND + until->tv_nsec - now.tv_nsec;
}

/* When to look at the other clock again, by the one that nobody sets. */
static struct timespec slice(const struct timespec *until) {
    struct timespec end;
    long long wait = left(until);
    clock_gettime(CLOCK_MONOTONIC, &end);
    wait = end.tv_nsec + (wait < 0 ? 0 : wait > SLICE ? SLICE : wait);
    end.tv_sec += wait / SECOND;
    end.tv_nsec = wait % SECOND;
    return end;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    if (condition->__data.__wrefs & 2) /* glibc's mark of a condition that waits by the other kind of clock */
        return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
    for (;;) {
        struct timespec end = slice(until);
        int failed = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &end);
        if (failed != ETIMEDOUT || left(until) <= 0)
            return failed;
    }
}

/* In glibc the same objects under C's own names. */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    int failed = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    return failed == ETIMEDOUT ? thrd_timedout : failed ? thrd_error : thrd_success;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    for (;;) {
        struct timespec end = slice(until);
        int failed = sem_clockwait(semaphore, CLOCK_MONOTONIC, &end);
        if (!failed || errno != ETIMEDOUT || left(until) <= 0)
            return failed;
    }
}
