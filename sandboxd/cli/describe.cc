#include "sandboxd/cli/describe.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sandboxd::cli {
namespace {

// CLI11 shows what a value may be as "TEXT:{table,json}".
void ReadValue(const CLI::Option& option, OptionText& text) {
  if (option.get_items_expected_max() == 0) return;
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  if (open != std::string::npos) {
    const std::string list = type.substr(open + 1, type.rfind('}') - open - 1);
    for (const absl::string_view choice : absl::StrSplit(list, ',')) {
      text.choices.emplace_back(choice);
    }
  }
  text.value = type.substr(0, type.find_first_of(":{ "));
  if (text.value.empty()) text.value = "TEXT";
}

OptionText DescribeOption(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  ReadValue(option, text);
  text.text = option.get_description();
  return text;
}

std::vector<OptionText> DescribeOptions(const CLI::App& app) {
  std::vector<OptionText> options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) options.push_back(DescribeOption(*option));
  }
  return options;
}

CommandText DescribeCommand(const CLI::App& command) {
  CommandText text;
  text.names = {command.get_name()};
  for (const std::string& alias : command.get_aliases()) text.names.push_back(alias);
  text.text = command.get_description();
  text.footer = command.get_footer();
  text.options = DescribeOptions(command);
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional()) continue;
    text.takes_sandbox = text.takes_sandbox || option->get_name(true) == "id";
    text.arguments = DescribeOption(*option).choices;
  }
  text.takes_command = command.get_prefix_command();
  return text;
}

}  // namespace

ProgramText Describe(const CLI::App& app) {
  ProgramText program;
  program.text = app.get_description();
  program.footer = app.get_footer();
  program.options = DescribeOptions(app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) program.commands.push_back(DescribeCommand(*command));
  }
  return program;
}

}  // namespace sandboxd::cli
