// Small text of /proc, without allocation.
#ifndef SANDBOXD_RUNTIME_PROBE_TEXT_H_
#define SANDBOXD_RUNTIME_PROBE_TEXT_H_

#include <cstddef>
#include <cstdint>

#include "runtime/probe_format.h"

namespace sandboxd::probe {

// Reads a whole file into `buffer` and ends it with NUL. False where it cannot be read or is longer
// than `size - 1` bytes: half a file would be judged as if it were one.
bool ReadText(const char* path, char* buffer, size_t size);

// The number behind `key` at the start of a line, in the given base; `fallback` where there is
// none.
uint64_t NumberAfter(const char* text, const char* key, int base, uint64_t fallback);

// Counts `name` as bad; keeps it if it is the first, with '?' for what is not printable.
void AddBad(ProbeFinding& finding, const char* name);

}  // namespace sandboxd::probe

#endif  // SANDBOXD_RUNTIME_PROBE_TEXT_H_
