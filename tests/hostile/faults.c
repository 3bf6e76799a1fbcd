/* Lets one system call of a process fail, for tests/hostile/faults.py. Loaded with LD_PRELOAD; does nothing until it is armed.

   Only calls on paths below one folder count, and on descriptors of such paths. Calls that a library makes without libc's
   functions are not seen: the rename inside safetensors is one. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Kinds of calls, as in faults.py. */
enum { WRITE = 1, SYNC = 2, LINK = 4, CREATE = 8, MKDIR = 16, SIZE = 32, READ = 64, OPEN = 128, LIST = 256, REMOVE = 512,
       MODE = 1024, LOOK = 2048, MAP = 4096 };
enum { ONCE, ALWAYS, SHORT, SHORT_THEN_FAIL };

/* Shared with the process that reads the result. n_linked: checkpoints that got their name before the fault. */
struct report { long n_calls, n_faults, n_linked; char call[1000]; };

static char folder[PATH_MAX];
static unsigned kinds;
static long nth;
static int error_number, manner;
static struct report *report;

void faults_arm(const char *below, unsigned mask, long number, int error, int how, struct report *to) {
    strncpy(folder, below, sizeof folder - 1);
    kinds = mask, nth = number, error_number = error, manner = how, report = to;
}

/* The path of a descriptor with the name after it; "" if there is none. */
static const char *path_of(int descriptor, const char *name, char *found) {
    char link[64];
    ssize_t n = 0;
    int before = errno;
    if (name && *name == '/') return name;
    if (descriptor == AT_FDCWD) {
        n = getcwd(found, PATH_MAX) ? (ssize_t)strlen(found) : 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        n = readlink(link, found, PATH_MAX - 1);
    }
    errno = before;
    n = n < 0 ? 0 : n;
    if (name && *name) n += snprintf(found + n, PATH_MAX - n, "/%s", name);
    found[n < PATH_MAX ? n : PATH_MAX - 1] = 0;
    return found;
}

/* What this call must do: 0 proceed, 1 fail (errno is set), 2 handle only a part. */
static int strikes(unsigned kind, const char *call, int descriptor, const char *name) {
    char buffer[PATH_MAX];
    if (!(kinds & kind)) return 0;
    const char *path = path_of(descriptor, name, buffer);
    size_t n = strlen(folder);
    if (strncmp(path, folder, n) || (path[n] && path[n] != '/')) return 0;
    long number = __atomic_add_fetch(&report->n_calls, 1, __ATOMIC_SEQ_CST);
    int is_first = number == nth, after = manner == SHORT_THEN_FAIL && number == nth + 1;
    if (!is_first && !after && !(manner == ALWAYS && nth && number > nth)) return 0;
    report->n_faults++;
    if (is_first) snprintf(report->call, sizeof report->call, "%s %s", call, path[n] ? path + n + 1 : ".");
    if (is_first && manner >= SHORT) return 2;
    errno = error_number;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

/* Calls that only fail. */
#define FAILS(type, failed, name, kind, at, path, parameters, ...) \
    type name parameters { \
        static type (*real) parameters; \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
        if (strikes(kind, #name, at, path) == 1) return failed; \
        return real(__VA_ARGS__); \
    }

/* Calls that transfer n bytes: they may also transfer the first half. */
#define TRANSFERS(name, kind, parameters, ...) \
    ssize_t name parameters { \
        static ssize_t (*real) parameters; \
        if (!real) real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name); \
        int what = strikes(kind, #name, fd, NULL); \
        if (what == 1) return -1; \
        if (what == 2) n = (n + 1) / 2; \
        return real(__VA_ARGS__); \
    }

TRANSFERS(write, WRITE, (int fd, const void *data, size_t n), fd, data, n)
TRANSFERS(pwrite, WRITE, (int fd, const void *data, size_t n, off_t at), fd, data, n, at)
TRANSFERS(pwrite64, WRITE, (int fd, const void *data, size_t n, off64_t at), fd, data, n, at)
TRANSFERS(writev, WRITE, (int fd, const struct iovec *data, int n), fd, data, n)
TRANSFERS(read, READ, (int fd, void *data, size_t n), fd, data, n)
TRANSFERS(pread, READ, (int fd, void *data, size_t n, off_t at), fd, data, n, at)
TRANSFERS(pread64, READ, (int fd, void *data, size_t n, off64_t at), fd, data, n, at)
TRANSFERS(readv, READ, (int fd, const struct iovec *data, int n), fd, data, n)
TRANSFERS(copy_file_range, WRITE, (int from, off64_t *at, int fd, off64_t *to, size_t n, unsigned flags), from, at, fd, to, n,
          flags)
TRANSFERS(sendfile, WRITE, (int fd, int from, off_t *at, size_t n), fd, from, at, n)
TRANSFERS(sendfile64, WRITE, (int fd, int from, off64_t *at, size_t n), fd, from, at, n)
ssize_t __read_chk(int fd, void *data, size_t n, size_t room) { return read(fd, data, n < room ? n : room); }

FAILS(int, -1, fsync, SYNC, fd, NULL, (int fd), fd)
FAILS(int, -1, fdatasync, SYNC, fd, NULL, (int fd), fd)
FAILS(int, -1, ftruncate, SIZE, fd, NULL, (int fd, off_t n), fd, n)
FAILS(int, -1, ftruncate64, SIZE, fd, NULL, (int fd, off64_t n), fd, n)
FAILS(int, errno, posix_fallocate, SIZE, fd, NULL, (int fd, off_t at, off_t n), fd, at, n)
FAILS(int, errno, posix_fallocate64, SIZE, fd, NULL, (int fd, off64_t at, off64_t n), fd, at, n)
FAILS(int, -1, link, LINK, AT_FDCWD, to, (const char *from, const char *to), from, to)
FAILS(int, -1, linkat, LINK, t, to, (int f, const char *from, int t, const char *to, int flags), f, from, t, to, flags)
FAILS(int, -1, renameat2, LINK, t, to, (int f, const char *from, int t, const char *to, unsigned flags), f, from, t, to, flags)
FAILS(int, -1, mkdir, MKDIR, AT_FDCWD, path, (const char *path, mode_t mode), path, mode)
FAILS(int, -1, mkdirat, MKDIR, at, path, (int at, const char *path, mode_t mode), at, path, mode)
FAILS(int, -1, unlink, REMOVE, AT_FDCWD, path, (const char *path), path)
FAILS(int, -1, unlinkat, REMOVE, at, path, (int at, const char *path, int flags), at, path, flags)
FAILS(int, -1, rmdir, REMOVE, AT_FDCWD, path, (const char *path), path)
FAILS(int, -1, chmod, MODE, AT_FDCWD, path, (const char *path, mode_t mode), path, mode)
FAILS(int, -1, fchmod, MODE, fd, NULL, (int fd, mode_t mode), fd, mode)
FAILS(int, -1, fchmodat, MODE, at, path, (int at, const char *path, mode_t mode, int flags), at, path, mode, flags)
FAILS(int, -1, utimensat, MODE, at, path, (int at, const char *path, const struct timespec t[2], int flags), at, path, t, flags)
FAILS(int, -1, stat64, LOOK, AT_FDCWD, path, (const char *path, struct stat64 *found), path, found)
FAILS(int, -1, lstat64, LOOK, AT_FDCWD, path, (const char *path, struct stat64 *found), path, found)
FAILS(int, -1, fstat64, LOOK, fd, NULL, (int fd, struct stat64 *found), fd, found)
FAILS(int, -1, fstatat64, LOOK, at, path, (int at, const char *path, struct stat64 *found, int flags), at, path, found, flags)
FAILS(DIR *, NULL, opendir, LIST, AT_FDCWD, path, (const char *path), path)
FAILS(DIR *, NULL, fdopendir, LIST, fd, NULL, (int fd), fd)
FAILS(struct dirent *, NULL, readdir, LIST, dirfd(folder), NULL, (DIR *folder), folder)
FAILS(struct dirent64 *, NULL, readdir64, LIST, dirfd(folder), NULL, (DIR *folder), folder)
FAILS(void *, MAP_FAILED, mmap, MAP, fd, NULL, (void *to, size_t n, int allowed, int flags, int fd, off_t at), to, n, allowed,
      flags, fd, at)
FAILS(void *, MAP_FAILED, mmap64, MAP, fd, NULL, (void *to, size_t n, int allowed, int flags, int fd, off64_t at), to, n, allowed,
      flags, fd, at)

static void count_checkpoint(const char *to) {
    size_t n = strlen(to), end = strlen("/run.checkpoint");
    if (report && !report->n_faults && n >= end && !strcmp(to + n - end, "/run.checkpoint")) report->n_linked++;
}

int renameat(int f, const char *from, int t, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    if (strikes(LINK, "renameat", t, to) == 1) return -1;
    return real(f, from, t, to);
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    if (strikes(LINK, "rename", AT_FDCWD, to) == 1) return -1;
    count_checkpoint(to);
    return real(from, to);
}

static mode_t mode_in(int flags, va_list rest) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; }
static unsigned kind_of(int flags) { return flags & (O_CREAT | O_WRONLY | O_RDWR) ? CREATE : OPEN; }

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_in(flags, rest); \
        va_end(rest); \
        if (strikes(kind_of(flags), #name, AT_FDCWD, path) == 1) return -1; \
        return real(path, flags, mode); \
    }
#define OPENS_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_in(flags, rest); \
        va_end(rest); \
        if (strikes(kind_of(flags), #name, at, path) == 1) return -1; \
        return real(at, path, flags, mode); \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
