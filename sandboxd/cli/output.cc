#include "sandboxd/cli/output.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace sandboxd::cli {

int PrintError(const absl::Status& status) {
  fprintf(stderr, "sandboxctl: %s\n", Printable(std::string(status.message())).c_str());
  const std::string reason = DetailOf(status).reason;
  if (reason == "COMMAND_NOT_FOUND") return kExitNotFound;
  if (reason == "COMMAND_NOT_EXECUTABLE" || absl::StartsWith(reason, "CWD_")) {
    return kExitNotExecutable;
  }
  return kExitError;
}

void PrintJson(const nlohmann::json& value) {
  const std::string text = value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  puts(text.c_str());
}

void PrintTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppendFormat(&line, "%-*s  ", static_cast<int>(widths[i]), row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  fputs(out.c_str(), stdout);
}

std::string Printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

absl::StatusOr<int64_t> ParseMilliseconds(const std::string& text) {
  struct Unit {
    const char* suffix;
    int64_t millis;
  };
  constexpr Unit kUnits[] = {
      {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  for (const Unit& unit : kUnits) {
    const std::string suffix = unit.suffix;
    if (!absl::EndsWith(text, suffix)) continue;
    int64_t number = 0;
    if (absl::SimpleAtoi(text.substr(0, text.size() - suffix.size()), &number) && number > 0 &&
        number < INT64_MAX / unit.millis) {
      return number * unit.millis;
    }
  }
  int64_t seconds = 0;
  if (absl::SimpleAtoi(text, &seconds) && seconds > 0 && seconds < INT64_MAX / 1000) {
    return seconds * 1000;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a duration; give 30s, 5m, 2h, 1d or 250ms"));
}

}  // namespace sandboxd::cli
