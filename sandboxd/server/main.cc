// sandboxd: the daemon's program.
#include <unistd.h>

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "sandboxd/server/config.h"
#include "sandboxd/server/serve.h"
#include "sandboxd/version.h"

namespace {

constexpr char kDefaultConfig[] = "/etc/sandboxd/config.toml";

int CheckConfig(const std::string& path) {
  const absl::Status status =
      path.empty() ? absl::OkStatus() : sandboxd::server::LoadConfig(path).status();
  if (!status.ok()) {
    fprintf(stderr, "sandboxd: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  printf("%s: the configuration is valid\n", path.empty() ? "defaults" : path.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Launches and keeps sandboxes; serves clients on a Unix socket.", "sandboxd");
  std::string path;
  bool print = false;
  bool check = false;
  app.add_option("--config", path, "Configuration file; default /etc/sandboxd/config.toml");
  app.add_flag("--print-default-config", print, "Print a commented configuration and exit");
  app.add_flag("--check-config", check, "Judge the configuration and exit");
  bool manual = false;
  app.add_flag("--print-config-manual", manual, "")->group("");  // For the build.
  app.set_version_flag("--version", std::string("sandboxd ") + sandboxd::kVersion);
  CLI11_PARSE(app, argc, argv);
  if (print) {
    fputs(sandboxd::server::DefaultConfigText().c_str(), stdout);
    return 0;
  }
  if (manual) {
    fputs(sandboxd::server::ConfigManualPage().c_str(), stdout);
    return 0;
  }
  if (path.empty() && access(kDefaultConfig, F_OK) == 0) path = kDefaultConfig;
  return check ? CheckConfig(path) : sandboxd::server::Serve(path, sandboxd::LayerSet::All());
}
