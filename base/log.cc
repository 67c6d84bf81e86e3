#include "base/log.h"

#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sandboxd {
namespace {

std::atomic<LogLevel> minimum_level = LogLevel::kInfo;

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// JSON string escapes. Bytes outside ASCII become \u00XX, so a line stays one line of valid UTF-8
// whatever a client put into a name.
void AppendEscaped(std::string& out, absl::string_view text) {
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte >= 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", byte);
    } else {
      out.push_back(c);
    }
  }
}

void AppendField(std::string& out, absl::string_view key, absl::string_view value) {
  absl::StrAppend(&out, ",\"", key, "\":\"");
  AppendEscaped(out, value);
  out.push_back('"');
}

}  // namespace

void SetLogLevel(LogLevel level) { minimum_level = level; }

bool ParseLogLevel(absl::string_view name, LogLevel& level) {
  for (const LogLevel candidate :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (LevelName(candidate) == name) {
      level = candidate;
      return true;
    }
  }
  return false;
}

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields) {
  if (level < minimum_level) return;
  std::string line = absl::StrCat(
      "{\"ts\":\"", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()),
      "\",\"level\":\"", LevelName(level), "\"");
  AppendField(line, "msg", message);
  for (const auto& [key, value] : fields) AppendField(line, key, value);
  line += "}\n";
  // One write, so that lines of the daemon's threads do not mix. A full disk loses the line.
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace sandboxd
