// What the command line consists of, read from its parser: completion scripts and the manual page
// are made from this, so they cannot say anything else than the program does.
#ifndef SANDBOXD_CLI_DESCRIBE_H_
#define SANDBOXD_CLI_DESCRIBE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace CLI {
class App;
}

namespace sandboxd::cli {

struct OptionText {
  std::vector<std::string> names;  // "-o", "--output"
  std::string value;               // "TEXT"; empty for a flag.
  std::vector<std::string> choices;
  std::string text;
};

struct CommandText {
  std::vector<std::string> names;  // The name and its alias.
  std::string text;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<std::string> arguments;  // What its argument may be, where that is known.
  bool takes_sandbox = false;          // Its argument is one, or several.
  bool takes_command = false;          // What follows is a command to run.
};

struct ProgramText {
  std::string text;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

ProgramText Describe(const CLI::App& app);

// For bash, zsh or fish; INVALID_ARGUMENT for another shell.
absl::StatusOr<std::string> CompletionScript(const ProgramText& program, absl::string_view shell);

// sandboxctl(1), as roff with the macros of man(7).
std::string ManualPage(const ProgramText& program, absl::string_view version);

}  // namespace sandboxd::cli

#endif  // SANDBOXD_CLI_DESCRIBE_H_
