#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "sandboxd/cli/describe.h"

namespace sandboxd::cli {
namespace {

// As text of roff: no escape, no hyphen in place of a minus, no request at the start of a line.
std::string Roff(absl::string_view text) {
  std::string roff = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"…", "..."}});
  if (absl::StartsWith(roff, ".") || absl::StartsWith(roff, "'")) roff.insert(0, "\\&");
  return roff;
}

std::string OptionLines(const std::vector<OptionText>& options) {
  std::string lines;
  for (const OptionText& option : options) {
    const std::string value =
        option.choices.empty() ? option.value : absl::StrJoin(option.choices, "|");
    absl::StrAppend(&lines, ".TP\n\\fB", Roff(absl::StrJoin(option.names, ", ")), "\\fR",
                    value.empty() ? "" : absl::StrCat(" \\fI", Roff(value), "\\fR"), "\n",
                    Roff(option.text), "\n");
  }
  return lines;
}

// The footer of a command: examples are indented lines.
std::string FooterLines(const std::string& footer) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(footer, '\n')) {
    if (absl::StartsWith(line, "  ")) {
      absl::StrAppend(&lines, ".nf\n.RS\n", Roff(absl::StripAsciiWhitespace(line)), "\n.RE\n.fi\n");
    } else if (line != "Examples:") {
      absl::StrAppend(&lines, ".PP\n", Roff(line), "\n");
    }
  }
  return lines;
}

std::string CommandLines(const CommandText& command) {
  std::string synopsis = absl::StrCat(command.names[0], " [options]");
  if (command.takes_sandbox) absl::StrAppend(&synopsis, " SANDBOX");
  if (command.takes_command) absl::StrAppend(&synopsis, " -- COMMAND [ARGUMENT...]");
  std::string also;
  if (command.names.size() > 1) also = absl::StrCat(" (also: ", command.names[1], ")");
  return absl::StrCat(".SS \"", Roff(synopsis), "\"\n", Roff(command.text), Roff(also), ".\n",
                      OptionLines(command.options), FooterLines(command.footer));
}

}  // namespace

std::string ManualPage(const ProgramText& program, absl::string_view version) {
  std::string page = absl::StrCat(".TH SANDBOXCTL 1 \"\" \"sandboxd ", version,
                                  "\" \"User Commands\"\n.SH NAME\nsandboxctl \\- ",
                                  "make, use and end sandboxes\n.SH SYNOPSIS\n.B "
                                  "sandboxctl\n[\\fB\\-\\-socket\\fR \\fIPATH\\fR] "
                                  "\\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n",
                                  Roff(program.text), "\n.SH OPTIONS\n",
                                  OptionLines(program.options), ".SH COMMANDS\n");
  for (const CommandText& command : program.commands) {
    absl::StrAppend(&page, CommandLines(command));
  }
  absl::StrAppend(&page, ".SH EXIT STATUS\n",
                  Roff(absl::StrReplaceAll(program.footer, {{"\n", " "}})),
                  "\n.SH ENVIRONMENT\n.TP\n.B SANDBOXD_SOCKET\nThe daemon's socket, where "
                  "\\fB\\-\\-socket\\fR does not name it.\n.SH FILES\n.TP\n"
                  ".I /run/sandboxd/sandboxd.sock\nWhere a daemon listens by default.\n"
                  ".SH SEE ALSO\n.BR sandboxd (8),\n.BR sandboxd.toml (5)\n");
  return page;
}

}  // namespace sandboxd::cli
