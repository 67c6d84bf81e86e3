#ifndef SANDBOXD_SERVER_SERVE_H_
#define SANDBOXD_SERVER_SERVE_H_

#include <string>

#include "runtime/launch_plan.h"

namespace sandboxd::server {

// The daemon as a program: serves with the configuration in the file `path` (empty: the defaults)
// until it is told to stop. Returns the exit code; standard error has the reason of a failure.
int Serve(const std::string& path, LayerSet layers);

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_SERVE_H_
