#include "runtime/probe/text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace sandboxd::probe {

bool ReadText(const char* path, char* buffer, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  size_t done = 0;
  ssize_t n = 0;
  while (done < size && (n = read(fd, buffer + done, size - done)) > 0) {
    done += static_cast<size_t>(n);
  }
  close(fd);
  if (n < 0 || done == size) return false;
  buffer[done] = '\0';
  return true;
}

uint64_t NumberAfter(const char* text, const char* key, int base, uint64_t fallback) {
  const size_t length = strlen(key);
  for (const char* line = text; line != nullptr; line = strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (strncmp(line, key, length) != 0) continue;
    char* end = nullptr;
    const uint64_t number = strtoull(line + length, &end, base);
    return end == line + length ? fallback : number;
  }
  return fallback;
}

void AddBad(ProbeFinding& finding, const char* name) {
  if (finding.bad++ > 0) return;
  size_t i = 0;
  for (; name[i] != '\0' && i + 1 < kProbeText; ++i) {
    finding.first_bad[i] = name[i] > ' ' && name[i] <= '~' ? name[i] : '?';
  }
  finding.first_bad[i] = '\0';
}

}  // namespace sandboxd::probe
