// sandboxctl: the command line.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "sandboxd/cli/commands.h"
#include "sandboxd/cli/output.h"

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

}  // namespace

int main(int argc, char** argv) {
  namespace cli = sandboxd::cli;
  CLI::App app("Sandboxes on this machine, through sandboxd.", "sandboxctl");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: the command's own; 124 timeout; 125 error of sandboxctl or the daemon; 126 the\n"
      "command cannot be run; 127 it was not found; 128+n it was killed by signal n.");
  Options options;
  app.add_option("--socket", options.socket,
                 "The daemon's socket; else SANDBOXD_SOCKET, else /run/sandboxd/sandboxd.sock");

  CLI::App* create = Command(app, "create", nullptr, "Make a sandbox",
                             "  sandboxctl create --image host --timeout 30m -o json\n"
                             "  id=$(sandboxctl create -q --name build)",
                             options);
  AddCreateOptions(create, options);
  create->add_option("--timeout", options.timeout, "Time to live: 30m, 2h, …");
  create->add_option("--idempotency-key", options.key, "The same key finds the same sandbox");

  CLI::App* run = Command(app, "run", nullptr, "Make a sandbox and run a command in it",
                          "  sandboxctl run --rm -- uname -a\n"
                          "  echo hello | sandboxctl run --rm -i -- wc -c",
                          options);
  AddCreateOptions(run, options);
  AddExecOptions(run, options);
  run->add_flag("--rm", options.remove, "Remove the sandbox afterwards");
  run->prefix_command();

  CLI::App* exec = Command(app, "exec", nullptr, "Run a command in a sandbox",
                           "  sandboxctl exec ID -- go version\n"
                           "  sandboxctl exec --timeout 5s -u 1000 ID -- sh -c 'sleep 10'",
                           options);
  AddExecOptions(exec, options);
  exec->add_option("-e,--env", options.env, "NAME=VALUE, repeatable")->allow_extra_args(false);
  exec->add_option("-u,--user", options.user, "NAME, NAME:GROUP, UID or UID:GID");
  exec->add_option("-w,--workdir", options.cwd, "Working directory inside");
  exec->add_option("--grace", options.grace, "Between SIGTERM and SIGKILL on timeout; 1s");
  std::string sandbox;
  exec->add_option("id", sandbox, "Sandbox: id, prefix of one, or name")->required();
  exec->prefix_command();

  CLI::App* list = Command(app, "list", "ps", "List sandboxes", "  sandboxctl list -o json", options);
  list->add_flag("-a,--all", options.all, "Also the last ended ones");
  list->add_option("--name", options.name, "Only this name");
  list->add_option("--label", options.labels, "Only with KEY=VALUE")->allow_extra_args(false);

  CLI::App* info = Command(app, "info", "inspect", "Everything about a sandbox",
                           "  sandboxctl info ID", options);
  CLI::App* kill = Command(app, "kill", "rm", "End sandboxes and remove every trace of them",
                           "  sandboxctl kill ID\n  sandboxctl kill $(sandboxctl list -q)", options);
  CLI::App* wait = Command(app, "wait", nullptr, "Wait until a sandbox has ended",
                           "  sandboxctl wait ID", options);
  info->add_option("id", options.ids, "Sandbox")->required()->expected(1);
  kill->add_option("id", options.ids, "Sandboxes")->required();
  wait->add_option("id", options.ids, "Sandbox")->required()->expected(1);

  CLI::App* events = Command(app, "events", nullptr, "Follow what happens, one JSON a line",
                             "  sandboxctl events --after 0", options);
  events->add_option("id", options.ids, "Only this sandbox")->expected(0, 1);
  events->add_option("--after", options.after, "Begin after this sequence number");
  CLI::App* version = Command(app, "version", nullptr, "Versions of client and daemon",
                              "  sandboxctl version", options);

  // What follows the first "--" is the command's, whatever it looks like.
  int own = argc;
  for (int i = argc - 1; i > 0; --i) {
    if (std::string(argv[i]) == "--") own = i;
  }
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : cli::kExitError;
  }
  for (const CLI::App* command : {run, exec}) {
    if (!command->parsed()) continue;
    options.ids = {sandbox};
    options.command = command->remaining();
    options.command.insert(options.command.end(),
                           argv + (own == argc ? argc : options.command.empty() ? own + 1 : own),
                           argv + argc);
    if (options.command.empty()) {
      fprintf(stderr, "sandboxctl: which command? see `sandboxctl %s --help`\n",
              command->get_name().c_str());
      return cli::kExitError;
    }
  }
  if (create->parsed()) return cli::Create(options);
  if (run->parsed()) return cli::Run(options);
  if (exec->parsed()) return cli::Exec(options);
  if (list->parsed()) return cli::List(options);
  if (info->parsed()) return cli::Info(options);
  if (kill->parsed()) return cli::Kill(options);
  if (wait->parsed()) return cli::Wait(options);
  if (events->parsed()) return cli::Events(options);
  if (version->parsed()) return cli::Version(options);
  return cli::kExitError;
}
