// Structured log lines on standard error: JSON objects, one a line, with ts, level, msg and the
// caller's fields. Libraries never log; the daemon does, once, at the edge where an error is
// handled. Values of env and other secrets are never passed here.
#ifndef SANDBOXD_BASE_LOG_H_
#define SANDBOXD_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace sandboxd {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogField = std::pair<absl::string_view, std::string>;

// Lines below this level are dropped. Default kInfo.
void SetLogLevel(LogLevel level);
bool ParseLogLevel(absl::string_view name, LogLevel& level);

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_LOG_H_
