// A library for LD_PRELOAD that sets the system clock of one process.
//
// The file named by CLOCK_SHIM_FILE contains an int64, which is the number of nanoseconds to add to
// CLOCK_REALTIME. A test changes the number in CLOCK_SHIM_FILE while the process runs. As in the
// kernel, a clock change affects waits for an absolute CLOCK_REALTIME time.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Maximum interval in nanoseconds between clock checks during a wait.
constexpr int64_t kSlice = 20'000'000;

template <typename Fn>
Fn* Real(const char* name) {
  return reinterpret_cast<Fn*>(dlsym(RTLD_NEXT, name));
}

int64_t Offset() {
  static std::atomic<int64_t>* const offset = []() -> std::atomic<int64_t>* {
    const char* path = getenv("CLOCK_SHIM_FILE");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) abort();
    void* memory = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) abort();
    close(fd);
    return static_cast<std::atomic<int64_t>*>(memory);
  }();
  return *offset;
}

bool IsSystemClock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int64_t Now(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

timespec TimeOf(int64_t nanoseconds) {
  return {.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = Real<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (result == 0 && IsSystemClock(clock)) {
    *time = TimeOf(time->tv_sec * kSecond + time->tv_nsec + Offset());
  }
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  const int64_t now = Now(CLOCK_REALTIME);
  *time = {.tv_sec = now / kSecond, .tv_usec = now % kSecond / 1000};
  return 0;
}

time_t time(time_t* to) noexcept {
  const time_t now = Now(CLOCK_REALTIME) / kSecond;
  if (to != nullptr) *to = now;
  return now;
}

long syscall(long number, ...) noexcept {
  static const auto real = Real<long(long, ...)>("syscall");
  long a[6];
  va_list list;
  va_start(list, number);
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const bool waits_for_time = number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 &&
                              (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && a[3] != 0;
  if (!waits_for_time) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  const timespec until = *reinterpret_cast<const timespec*>(a[3]);
  for (;;) {
    const int64_t left = until.tv_sec * kSecond + until.tv_nsec - Now(CLOCK_REALTIME);
    if (left <= 0) {
      errno = ETIMEDOUT;
      return -1;
    }
    const timespec slice = TimeOf(Now(CLOCK_MONOTONIC) + std::min(left, kSlice));
    const long result = real(number, a[0], a[1] & ~FUTEX_CLOCK_REALTIME, a[2], &slice, a[4], a[5]);
    if (result == 0 || errno != ETIMEDOUT) return result;
  }
}

}  // extern "C"
