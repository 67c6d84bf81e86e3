#ifndef SANDBOXD_BASE_ID_H_
#define SANDBOXD_BASE_ID_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sandboxd {

// A new random identifier: 128 bits of getrandom(2) as 32 lower-case hexadecimal digits.
std::string RandomId();

// Whether `text` has the form of RandomId()'s result.
bool IsId(absl::string_view text);

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_ID_H_
