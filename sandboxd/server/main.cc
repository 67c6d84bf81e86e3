// sandboxd: the daemon's program.
#include <unistd.h>

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "sandboxd/server/daemon.h"
#include "sandboxd/version.h"

namespace {

constexpr char kDefaultConfig[] = "/etc/sandboxd/config.toml";

int Fail(const absl::Status& status) {
  fprintf(stderr, "sandboxd: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sandboxd::server;
  CLI::App app("Launches and keeps sandboxes; serves clients on a Unix socket.", "sandboxd");
  std::string path;
  bool print = false;
  bool check = false;
  app.add_option("--config", path, "Configuration file; default /etc/sandboxd/config.toml");
  app.add_flag("--print-default-config", print, "Print a commented configuration and exit");
  app.add_flag("--check-config", check, "Judge the configuration and exit");
  app.set_version_flag("--version", std::string("sandboxd ") + sandboxd::kVersion);
  CLI11_PARSE(app, argc, argv);
  if (print) {
    fputs(DefaultConfigText().c_str(), stdout);
    return 0;
  }
  if (path.empty() && access(kDefaultConfig, F_OK) == 0) path = kDefaultConfig;
  auto config = path.empty() ? ParseConfig("", "defaults") : LoadConfig(path);
  if (!config.ok()) return Fail(config.status());
  if (check) {
    printf("%s: the configuration is valid\n", path.empty() ? "defaults" : path.c_str());
    return 0;
  }
  if (geteuid() != 0) return Fail(absl::PermissionDeniedError("sandboxd must be started by root"));
  auto daemon = Daemon::Start(*std::move(config), path, sandboxd::LayerSet::All());
  if (!daemon.ok()) return Fail(daemon.status());
  (*daemon)->Run();
  return 0;
}
