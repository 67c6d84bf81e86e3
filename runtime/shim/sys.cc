#include "runtime/shim/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

namespace sandboxd::shim {

char* FormatNumber(char* out, const char* prefix, uint64_t number, const char* suffix) {
  char digits[24];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  char* end = stpcpy(out, prefix);
  while (count > 0) *end++ = digits[--count];
  stpcpy(end, suffix);
  return out;
}

int WriteFileAt(int dir, const char* path, const char* text) {
  const int fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno;
  const int error = Result(write(fd, text, strlen(text)));
  close(fd);
  return error;
}

uint64_t MonotonicMicros() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

void CloseAllBut(std::initializer_list<int> keep) {
  unsigned kept[8];
  size_t count = 0;
  for (const int fd : keep) {
    size_t i = count++;
    for (; i > 0 && kept[i - 1] > static_cast<unsigned>(fd); --i) kept[i] = kept[i - 1];
    kept[i] = static_cast<unsigned>(fd);
  }
  unsigned next = 3;
  for (size_t i = 0; i < count; ++i) {
    if (kept[i] > next) CloseRange(next, kept[i] - 1);
    if (kept[i] >= next) next = kept[i] + 1;
  }
  CloseRange(next, ~0u);
}

void ResetSignals() {
  // glibc hides two of its own signals from sigaction(3); their actions were never changed.
  for (int signal = 1; signal <= 64; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace sandboxd::shim
