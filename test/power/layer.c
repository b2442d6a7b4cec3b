/*
 * Preloaded into a process, it journals the process's changes to the files below JOURNALED_FOLDER: one record for each change and two
 * for each flush, in order. `journal.ts` reads the journal. Changes by other means, such as mapped files, are missing from it, so the
 * proof compares the journal with the files that were left.
 *
 * With JOURNAL_SWALLOWS_FLUSHES a flush does nothing and reports success.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The same numbers as in journal.ts. */
enum kind { OPENED = 1, MADE_FOLDER, WRITTEN, CUT, FLUSHING, FLUSHED, REMOVED, RENAMED };

struct record {
  uint32_t kind;
  /* Length of the bytes that follow. */
  uint32_t length;
  uint64_t inode;
  /* WRITTEN: the place; CUT: the size; FLUSHING and FLUSHED: the number of the flush; RENAMED: the length of the former path. */
  uint64_t at;
};

#define MOST_FILES 65536

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static uint64_t inode_of[MOST_FILES];
static uint64_t flushes;
static int journal = -1;
static const char *folder;
static int swallows;

#define real(name) ((__typeof__(&name))next_of(#name))

static void *next_of(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  return found;
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("JOURNAL");
  folder = getenv("JOURNALED_FOLDER");
  swallows = getenv("JOURNAL_SWALLOWS_FLUSHES") != NULL;
  if (!path || !folder) return;
  journal = real(open64)(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (journal < 0) abort();
}

static void append(struct record head, const void *bytes) {
  struct iovec parts[] = {{&head, sizeof head}, {(void *)bytes, head.length}};
  if (writev(journal, parts, 2) != (ssize_t)(sizeof head + head.length)) abort();
}

static int is_inside(const char *path) {
  size_t length = folder ? strlen(folder) : 0;
  return journal >= 0 && !strncmp(path, folder, length) && (path[length] == '/' || path[length] == 0);
}

static uint64_t inode(int file) { return journal < 0 || file < 0 || file >= MOST_FILES ? 0 : inode_of[file]; }

/* Makes a change and records it, with no other change in between. A macro, because a function cannot take statements. */
#define changed(result, did, ...)                      \
  do {                                                 \
    pthread_mutex_lock(&one_at_a_time);                \
    result = did;                                      \
    int error = errno;                                 \
    if (result >= 0) append(__VA_ARGS__);              \
    errno = error;                                     \
    pthread_mutex_unlock(&one_at_a_time);              \
  } while (0)

/* ---- files are opened and closed ---- */

static void note_opened(int file, int flags) {
  char link[64], path[PATH_MAX];
  struct stat64 found;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0 || file >= MOST_FILES) return;
  path[length] = 0;
  if (!is_inside(path) || real(fstat64)(file, &found) < 0) return;
  inode_of[file] = found.st_ino;
  append((struct record){OPENED, length, found.st_ino, S_ISDIR(found.st_mode)}, path);
  if (flags & O_TRUNC) append((struct record){CUT, 0, found.st_ino, 0}, NULL);
}

static int open_noted(int at, const char *path, int flags, mode_t mode) {
  pthread_mutex_lock(&one_at_a_time);
  int file = real(openat64)(at, path, flags, mode);
  int error = errno;
  if (file >= 0 && journal >= 0) note_opened(file, flags);
  errno = error;
  pthread_mutex_unlock(&one_at_a_time);
  return file;
}

#define MODE(last)                                                \
  mode_t mode = 0;                                                \
  if (flags & (O_CREAT | O_TMPFILE)) {                            \
    va_list given;                                                \
    va_start(given, last);                                        \
    mode = va_arg(given, mode_t);                                 \
    va_end(given);                                                \
  }

int open(const char *path, int flags, ...) { MODE(flags) return open_noted(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_noted(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_noted(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_noted(at, path, flags, mode); }

int close(int file) {
  if (inode(file)) inode_of[file] = 0;
  return real(close)(file);
}

/* ---- their contents ---- */

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
  ssize_t done;
  if (!inode(file)) return real(pwrite64)(file, bytes, count, at);
  changed(done, real(pwrite64)(file, bytes, count, at), (struct record){WRITTEN, done, inode(file), at}, bytes);
  return done;
}
ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) { return pwrite64(file, bytes, count, at); }

ssize_t write(int file, const void *bytes, size_t count) {
  ssize_t done;
  if (!inode(file)) return real(write)(file, bytes, count);
  changed(done, real(write)(file, bytes, count),
          (struct record){WRITTEN, done, inode(file), lseek64(file, 0, SEEK_CUR) - done}, bytes);
  return done;
}

int ftruncate64(int file, off64_t size) {
  int done;
  if (!inode(file)) return real(ftruncate64)(file, size);
  changed(done, real(ftruncate64)(file, size), (struct record){CUT, 0, inode(file), size}, NULL);
  return done;
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

/* Bytes written before a flush begins are on the disk once it has ended. */
static int flush(int file, int (*flush_file)(int)) {
  if (!inode(file)) return flush_file(file);
  if (swallows) return 0;
  pthread_mutex_lock(&one_at_a_time);
  uint64_t number = ++flushes;
  append((struct record){FLUSHING, 0, inode(file), number}, NULL);
  pthread_mutex_unlock(&one_at_a_time);
  int done;
  changed(done, flush_file(file), (struct record){FLUSHED, 0, inode(file), number}, NULL);
  return done;
}
int fsync(int file) { return flush(file, real(fsync)); }
int fdatasync(int file) { return flush(file, real(fdatasync)); }

/* ---- names ---- */

int mkdir(const char *path, mode_t mode) {
  int done;
  if (!is_inside(path)) return real(mkdir)(path, mode);
  changed(done, real(mkdir)(path, mode), (struct record){MADE_FOLDER, strlen(path), 0, 0}, path);
  return done;
}

int unlink(const char *path) {
  int done;
  if (!is_inside(path)) return real(unlink)(path);
  changed(done, real(unlink)(path), (struct record){REMOVED, strlen(path), 0, 0}, path);
  return done;
}

int rename(const char *from, const char *to) {
  int done;
  char both[2 * PATH_MAX];
  if (!is_inside(from) && !is_inside(to)) return real(rename)(from, to);
  int length = snprintf(both, sizeof both, "%s%s", from, to);
  changed(done, real(rename)(from, to), (struct record){RENAMED, length, 0, strlen(from)}, both);
  return done;
}
