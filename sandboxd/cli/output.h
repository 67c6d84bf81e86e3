// What a person or a script sees: tables, JSON, errors, durations.
#ifndef SANDBOXD_CLI_OUTPUT_H_
#define SANDBOXD_CLI_OUTPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sandboxd::cli {

// Exit codes beyond the command's own, as docker and timeout(1) have them.
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitError = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// Prints "sandboxctl: …" on standard error and returns the exit code that goes with the error.
int PrintError(const absl::Status& status);

void PrintJson(const nlohmann::json& value);

// Columns as wide as their widest cell; the first row is the heading.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

// Text of others may hold control bytes: none of them reaches a terminal.
std::string Printable(const std::string& text);

// "30s", "5m", "2h", "1d", "250ms", or a plain number of seconds.
absl::StatusOr<int64_t> ParseMilliseconds(const std::string& text);

}  // namespace sandboxd::cli

#endif  // SANDBOXD_CLI_OUTPUT_H_
