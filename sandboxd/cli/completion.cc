#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "sandboxd/cli/describe.h"

namespace sandboxd::cli {
namespace {

// Ids and names: the first two columns of the table, where there is one.
constexpr char kSandboxes[] =
    "list 2>/dev/null | awk '$1 == \"ID\" {table = 1; next} table {print $1; if ($2 != \"-\") "
    "print "
    "$2}'";

std::string Names(const std::vector<OptionText>& options) {
  std::vector<std::string> names;
  for (const OptionText& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return absl::StrJoin(names, " ");
}

std::string CommandNames(const ProgramText& program) {
  std::vector<std::string> names;
  for (const CommandText& command : program.commands) {
    names.insert(names.end(), command.names.begin(), command.names.end());
  }
  return absl::StrJoin(names, " ");
}

std::vector<OptionText> Matching(const std::vector<OptionText>& options,
                                 bool (*matches)(const OptionText&)) {
  std::vector<OptionText> matching;
  for (const OptionText& option : options) {
    if (matches(option)) matching.push_back(option);
  }
  return matching;
}

// What one command sets: its options, those that take a value, and what its arguments may be.
std::string BashCommand(const CommandText& command) {
  std::string script = absl::StrCat(
      "    ", absl::StrJoin(command.names, "|"), ")\n      options='", Names(command.options),
      "'\n      values=' ",
      Names(Matching(command.options, [](const OptionText& o) { return !o.value.empty(); })),
      " '\n");
  for (const OptionText& option : command.options) {
    if (option.choices.empty()) continue;
    absl::StrAppend(&script, "      case $prev in ", absl::StrJoin(option.names, "|"),
                    ") choices='", absl::StrJoin(option.choices, " "), "' ;; esac\n");
  }
  if (!command.arguments.empty()) {
    absl::StrAppend(&script, "      arguments='", absl::StrJoin(command.arguments, " "), "'\n");
  }
  if (command.takes_sandbox) absl::StrAppend(&script, "      sandbox=yes\n");
  return absl::StrCat(script, "      ;;\n");
}

constexpr char kBashBegin[] = R"sh(_sandboxctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command= given= options= values=' --socket ' choices= arguments= sandbox= i at
  local -a socket=()
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    case ${COMP_WORDS[at]} in
      --socket) socket=(--socket "${COMP_WORDS[++at]}") ;;
      -*) ;;
      *) command=${COMP_WORDS[at]}; break ;;
    esac
  done
  case $command in
)sh";
constexpr char kBashEnd[] = R"sh(  esac
  for ((i = at + 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) return ;;  # What follows is not ours.
      -*) if [[ $values == *" ${COMP_WORDS[i]} "* ]]; then ((i++)); fi ;;
      *) given=yes ;;
    esac
  done
  if [[ -n $choices ]]; then
    COMPREPLY=($(compgen -W "$choices" -- "$cur"))
  elif [[ $values == *" $prev "* ]]; then
    return  # A value of its own, perhaps a file.
  elif [[ $cur == -* || -z $command ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $arguments && -z $given ]]; then
    COMPREPLY=($(compgen -W "$arguments" -- "$cur"))
  elif [[ -n $sandbox && ( -z $given || $command == kill || $command == rm ) ]]; then
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" "${socket[@]}" @SANDBOXES@)" -- "$cur"))
  fi
}
complete -o default -F _sandboxctl sandboxctl
)sh";

std::string BashScript(const ProgramText& program) {
  std::string script = absl::StrCat(kBashBegin, "    '') options='", CommandNames(program), " ",
                                    Names(program.options), "' ;;\n");
  for (const CommandText& command : program.commands) {
    absl::StrAppend(&script, BashCommand(command));
  }
  return absl::StrCat(script, absl::StrReplaceAll(kBashEnd, {{"@SANDBOXES@", kSandboxes}}));
}

std::string FishQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishOption(const std::string& condition, const OptionText& option) {
  std::string line = absl::StrCat("complete -c sandboxctl -n '", condition, "'");
  for (const std::string& name : option.names) {
    const bool is_long = name.size() > 2;
    absl::StrAppend(&line, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
  }
  if (!option.value.empty()) absl::StrAppend(&line, option.choices.empty() ? " -r" : " -x");
  if (!option.choices.empty()) {
    absl::StrAppend(&line, " -a ", FishQuoted(absl::StrJoin(option.choices, " ")));
  }
  return absl::StrCat(line, " -d ", FishQuoted(option.text), "\n");
}

std::string FishScript(const ProgramText& program) {
  std::string script = "complete -c sandboxctl -f\n";
  for (const OptionText& option : program.options) {
    absl::StrAppend(&script, FishOption("__fish_use_subcommand", option));
  }
  for (const CommandText& command : program.commands) {
    for (const std::string& name : command.names) {
      absl::StrAppend(&script, "complete -c sandboxctl -n __fish_use_subcommand -a ", name, " -d ",
                      FishQuoted(command.text), "\n");
    }
    const std::string condition =
        absl::StrCat("__fish_seen_subcommand_from ", absl::StrJoin(command.names, " "));
    for (const OptionText& option : command.options) {
      absl::StrAppend(&script, FishOption(condition, option));
    }
    if (!command.arguments.empty()) {
      absl::StrAppend(&script, "complete -c sandboxctl -n '", condition, "' -a ",
                      FishQuoted(absl::StrJoin(command.arguments, " ")), "\n");
    }
    if (command.takes_sandbox) {
      absl::StrAppend(&script, "complete -c sandboxctl -n '", condition, "' -a \"(sandboxctl ",
                      absl::StrReplaceAll(kSandboxes, {{"\"", "\\\""}, {"$", "\\$"}}), ")\"\n");
    }
  }
  return script;
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(const ProgramText& program, absl::string_view shell) {
  if (shell == "bash") return BashScript(program);
  if (shell == "zsh") {
    return absl::StrCat("#compdef sandboxctl\nautoload -U +X bashcompinit && bashcompinit\n",
                        BashScript(program));
  }
  if (shell == "fish") return FishScript(program);
  return absl::InvalidArgumentError(
      absl::StrCat("there are completions for bash, zsh and fish, not for ", shell));
}

}  // namespace sandboxd::cli
