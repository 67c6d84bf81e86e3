#include "base/id.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace sandboxd {

std::string RandomId() {
  char bytes[16];
  // Requests up to 256 bytes are never interrupted once the pool is ready (getrandom(2)).
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) abort();
  return absl::BytesToHexString(absl::string_view(bytes, sizeof bytes));
}

bool IsId(absl::string_view text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace sandboxd
