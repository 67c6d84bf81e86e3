// sandboxctl: the command line.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "sandboxd/cli/commands.h"
#include "sandboxd/cli/describe.h"
#include "sandboxd/cli/output.h"
#include "sandboxd/version.h"

namespace {

using sandboxd::cli::Options;

CLI::App* Command(CLI::App& app, const char* name, const char* alias, const char* text,
                  const char* examples, Options& options) {
  CLI::App* command = app.add_subcommand(name, text);
  if (alias != nullptr) command->alias(alias);
  command->footer(std::string("Examples:\n") + examples);
  command->add_option("-o,--output", options.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  command->add_flag("-q,--quiet", options.quiet, "Print ids only");
  return command;
}

void AddCreateOptions(CLI::App* command, Options& options) {
  command->add_option("--image", options.image,
                      "`host` (default), or a directory that the operator allows");
  command->add_option("--name", options.name, "A name of your own");
  command->add_option("--hostname", options.hostname, "Host name inside");
  command->add_option("--profile", options.profile, "Isolation profile: default, strict, …");
  command->add_option("-e,--env", options.env, "NAME=VALUE, repeatable")->allow_extra_args(false);
  command->add_option("-u,--user", options.user, "NAME, NAME:GROUP, UID or UID:GID");
  command->add_option("-w,--workdir", options.cwd, "Working directory inside");
  command->add_option("--label", options.labels, "KEY=VALUE, repeatable")->allow_extra_args(false);
  command->add_option("--tmpfs", options.tmpfs, "PATH[:BYTES], repeatable")
      ->allow_extra_args(false);
  command->add_flag("--read-only", options.read_only, "The root cannot be written");
}

void AddExecOptions(CLI::App* command, Options& options) {
  command->add_flag("-i,--interactive", options.interactive, "Pass standard input on");
  command->add_option("--timeout", options.timeout, "End the command after 5s, 2m, …");
}

// The commands, and what each of them runs.
class CommandLine {
 public:
  CommandLine() : app_("Sandboxes on this machine, through sandboxd.", "sandboxctl") {
    app_.require_subcommand(1);
    app_.footer(
        "Exit codes: the command's own; 124 timeout; 125 error of sandboxctl or the daemon; 126\n"
        "the command cannot be run; 127 it was not found; 128+n it was killed by signal n.");
    app_.add_option("--socket", options_.socket,
                    "The daemon's socket; else SANDBOXD_SOCKET, else /run/sandboxd/sandboxd.sock");
    AddMaking();
    AddRunning();
    AddLooking();
    AddEnding();
    AddDescribing();
  }

  int Main(int argc, char** argv) {
    // What follows the first "--" is the command's, whatever it looks like.
    const int own = static_cast<int>(std::find(argv + 1, argv + argc, std::string("--")) - argv);
    try {
      app_.parse(own, argv);
    } catch (const CLI::ParseError& error) {
      return app_.exit(error) == 0 ? 0 : sandboxd::cli::kExitError;
    }
    if (completion_->parsed()) return PrintCompletion();
    if (manual_->parsed()) {
      fputs(sandboxd::cli::ManualPage(sandboxd::cli::Describe(app_), sandboxd::kVersion).c_str(),
            stdout);
      return 0;
    }
    for (const auto& [command, function] : commands_) {
      if (!command->parsed()) continue;
      if (command->get_prefix_command() && !TakeCommand(*command, argv + own, argv + argc)) {
        return sandboxd::cli::kExitError;
      }
      return function(options_);
    }
    return sandboxd::cli::kExitError;
  }

 private:
  using Function = int (*)(const Options&);

  CLI::App* Add(const char* name, const char* alias, const char* text, const char* examples,
                Function function) {
    CLI::App* command = Command(app_, name, alias, text, examples, options_);
    commands_.emplace_back(command, function);
    return command;
  }

  void AddMaking() {
    CLI::App* create = Add("create", nullptr, "Make a sandbox",
                           "  sandboxctl create --image host --timeout 30m -o json\n"
                           "  id=$(sandboxctl create -q --name build)",
                           sandboxd::cli::Create);
    AddCreateOptions(create, options_);
    create->add_option("--timeout", options_.timeout, "Time to live: 30m, 2h, …");
    create->add_option("--idempotency-key", options_.key, "The same key finds the same sandbox");
    CLI::App* run = Add("run", nullptr, "Make a sandbox and run a command in it",
                        "  sandboxctl run --rm -- uname -a\n"
                        "  echo hello | sandboxctl run --rm -i -- wc -c",
                        sandboxd::cli::Run);
    AddCreateOptions(run, options_);
    AddExecOptions(run, options_);
    run->add_flag("--rm", options_.remove, "Remove the sandbox afterwards");
    run->prefix_command();
  }

  void AddRunning() {
    CLI::App* exec = Add("exec", nullptr, "Run a command in a sandbox",
                         "  sandboxctl exec ID -- go version\n"
                         "  sandboxctl exec --timeout 5s -u 1000 ID -- sh -c 'sleep 10'",
                         sandboxd::cli::Exec);
    AddExecOptions(exec, options_);
    exec->add_option("-e,--env", options_.env, "NAME=VALUE, repeatable")->allow_extra_args(false);
    exec->add_option("-u,--user", options_.user, "NAME, NAME:GROUP, UID or UID:GID");
    exec->add_option("-w,--workdir", options_.cwd, "Working directory inside");
    exec->add_option("--grace", options_.grace, "Between SIGTERM and SIGKILL on timeout; 1s");
    exec->add_option("id", options_.id, "Sandbox: id, prefix of one, or name")->required();
    exec->prefix_command();
  }

  void AddLooking() {
    CLI::App* list =
        Add("list", "ps", "List sandboxes", "  sandboxctl list -o json", sandboxd::cli::List);
    list->add_flag("-a,--all", options_.all, "Also the last ended ones");
    list->add_option("--name", options_.name, "Only this name");
    list->add_option("--label", options_.labels, "Only with KEY=VALUE")->allow_extra_args(false);
    CLI::App* info = Add("info", "inspect", "Everything about a sandbox", "  sandboxctl info ID",
                         sandboxd::cli::Info);
    info->add_option("id", options_.id, "Sandbox")->required();
    CLI::App* report = Add("report", nullptr, "Measure a sandbox's isolation from inside",
                           "  sandboxctl report ID\n"
                           "  sandboxctl report ID -o json\n"
                           "The exit status is 1 if a layer that the profile has is not in force.",
                           sandboxd::cli::Report);
    report->add_option("id", options_.id, "Sandbox")->required();
    CLI::App* events = Add("events", nullptr, "Follow what happens, one JSON a line",
                           "  sandboxctl events --after 0", sandboxd::cli::Events);
    events->add_option("id", options_.id, "Only this sandbox");
    events->add_option("--after", options_.after, "Begin after this sequence number");
    Add("version", nullptr, "Versions of client and daemon", "  sandboxctl version",
        sandboxd::cli::Version);
  }

  void AddEnding() {
    CLI::App* kill =
        Add("kill", "rm", "End sandboxes and remove every trace of them",
            "  sandboxctl kill ID\n  sandboxctl kill $(sandboxctl list -q)", sandboxd::cli::Kill);
    kill->add_option("id", options_.ids, "Sandboxes")->required();
    CLI::App* wait = Add("wait", nullptr, "Wait until a sandbox has ended", "  sandboxctl wait ID",
                         sandboxd::cli::Wait);
    wait->add_option("id", options_.id, "Sandbox")->required();
  }

  // What tells of the command line itself.
  void AddDescribing() {
    completion_ = app_.add_subcommand("completion", "Print a completion script for a shell");
    completion_->add_option("shell", shell_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    completion_->footer(
        "Examples:\n"
        "  source <(sandboxctl completion bash)\n"
        "  sandboxctl completion fish > ~/.config/fish/completions/sandboxctl.fish");
    manual_ = app_.add_subcommand("manual", "Print the manual page");
    manual_->group("");  // For the build.
  }

  int PrintCompletion() {
    const auto script = sandboxd::cli::CompletionScript(sandboxd::cli::Describe(app_), shell_);
    if (!script.ok()) return sandboxd::cli::PrintError(script.status());
    fputs(script->c_str(), stdout);
    return 0;
  }

  // The command to run: what is left of our own words, then what stands from "--" on.
  bool TakeCommand(const CLI::App& command, char** begin, char** end) {
    options_.command = command.remaining();
    if (options_.command.empty() && begin < end) ++begin;
    options_.command.insert(options_.command.end(), begin, end);
    if (!options_.command.empty()) return true;
    fprintf(stderr, "sandboxctl: which command? see `sandboxctl %s --help`\n",
            command.get_name().c_str());
    return false;
  }

  CLI::App app_;
  Options options_;
  std::vector<std::pair<CLI::App*, Function>> commands_;
  CLI::App* completion_ = nullptr;
  CLI::App* manual_ = nullptr;
  std::string shell_;
};

}  // namespace

int main(int argc, char** argv) { return CommandLine().Main(argc, argv); }
