#ifndef SANDBOXD_CLI_EXEC_H_
#define SANDBOXD_CLI_EXEC_H_

#include <nlohmann/json.hpp>

#include "sandboxd/client/client.h"

namespace sandboxd::cli {

// Runs exec.start with `params`, copies output as it comes and standard input if `params` asks for
// it, and returns the exit code: the command's own, 128+n for signal n, 124 on timeout.
int RunExec(client::Client& client, const nlohmann::json& params);

}  // namespace sandboxd::cli

#endif  // SANDBOXD_CLI_EXEC_H_
