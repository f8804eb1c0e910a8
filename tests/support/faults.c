/* What a test makes true of a rex-rpc that it starts, between that and its C library (LD_PRELOAD). The program knows
 * nothing of it. Compiled by faults.py.
 *
 *   REX_FAULT_BOOT=FILE    the machine's boot id is what the file holds
 *   REX_FAULT_CLOCK=FILE   the clocks are so many seconds ahead as the file says at that moment, three numbers of eight
 *                          bytes: the time of day, the monotonic clock, and the one that counts sleep too
 *   REX_FAULT_DIE_AT=N     the process ends in the midst of its Nth write into a pipe or a socket, at once and without
 *                          a word; not what it starts
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* ahead; /* 3 */
static const char* boot;
static pid_t dying;
static long writes_left;

__attribute__((constructor)) static void begin(void) {
  const char* clock = getenv("REX_FAULT_CLOCK");
  const char* die_at = getenv("REX_FAULT_DIE_AT");
  boot = getenv("REX_FAULT_BOOT");
  if (clock != NULL) {
    const int fd = open(clock, O_RDONLY | O_CLOEXEC);
    void* const page = mmap(NULL, 3 * sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    ahead = page == MAP_FAILED ? NULL : page;
    close(fd);
  }
  if (die_at != NULL) {
    dying = getpid();
    writes_left = atol(die_at);
    unsetenv("REX_FAULT_DIE_AT");
  }
}

int clock_gettime(clockid_t which, struct timespec* now) {
  static int (*next)(clockid_t, struct timespec*);
  if (next == NULL) {
    next = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  }
  const int failed = next(which, now);
  const int at = which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE     ? 0
                 : which == CLOCK_MONOTONIC || which == CLOCK_MONOTONIC_COARSE ? 1
                 : which == CLOCK_BOOTTIME                                     ? 2
                                                                               : -1;
  if (failed == 0 && ahead != NULL && at >= 0) {
    now->tv_sec += ahead[at];
  }
  return failed;
}

FILE* fopen64(const char* path, const char* mode) {
  static FILE* (*next)(const char*, const char*);
  if (next == NULL) {
    next = (FILE * (*)(const char*, const char*)) dlsym(RTLD_NEXT, "fopen64");
  }
  return next(boot != NULL && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? boot : path, mode);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static ssize_t (*next)(int, const void*, size_t);
  struct stat status;
  if (next == NULL) {
    next = (ssize_t (*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  }
  if (writes_left > 0 && getpid() == dying && fstat(fd, &status) == 0 &&
      (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) && --writes_left == 0) {
    if (next(fd, bytes, size / 2) < 0) {
      _exit(98);
    }
    _exit(99);
  }
  return next(fd, bytes, size);
}
