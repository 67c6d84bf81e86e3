#include "sandboxd/server/serve.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/status.h"
#include "sandboxd/server/config.h"
#include "sandboxd/server/daemon.h"

namespace sandboxd::server {
namespace {

absl::Status ServeUntilStopped(const std::string& path, LayerSet layers) {
  ASSIGN_OR_RETURN(Config config, path.empty() ? ParseConfig("", "defaults") : LoadConfig(path));
  if (geteuid() != 0) return absl::PermissionDeniedError("sandboxd must be started by root");
  ASSIGN_OR_RETURN(const auto daemon, Daemon::Start(std::move(config), path, layers));
  daemon->Run();
  return absl::OkStatus();
}

}  // namespace

int Serve(const std::string& path, LayerSet layers) {
  const absl::Status status = ServeUntilStopped(path, layers);
  if (status.ok()) return 0;
  fprintf(stderr, "sandboxd: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace sandboxd::server
