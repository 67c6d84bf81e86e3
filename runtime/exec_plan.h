#ifndef SANDBOXD_RUNTIME_EXEC_PLAN_H_
#define SANDBOXD_RUNTIME_EXEC_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/plan_format.h"
#include "runtime/user_ref.h"

namespace sandboxd {

// One program to run inside, as the daemon has resolved it. All strings are bytes without NUL.
struct ExecSpec {
  std::vector<std::string> argv;  // At least one.
  std::vector<std::string> env;   // "NAME=VALUE", each name once.
  std::string cwd = "/";
  UserRef user;
  uint64_t capabilities = 0;
  std::vector<PlanRlimit> rlimits;
  uint32_t umask = 022;
  bool stdin_pipe = false;
  bool program_fd = false;  // The program comes as a descriptor, not from the sandbox's files.
};

// Where a program is looked for when its environment has no PATH.
inline constexpr char kDefaultPath[] =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Merges environments, later ones winning, order of first appearance kept; adds PATH where none
// has it. INVALID_FIELD for an entry without a name.
absl::StatusOr<std::vector<std::string>> MergeEnv(
    std::initializer_list<const std::vector<std::string>*> environments);

// The flat plan. ARGUMENTS_TOO_LONG, with the object named, where the kernel would refuse one
// string (MAX_ARG_STRLEN, 128 KiB with its NUL) or the sum (a quarter of the stack limit, 2 MiB).
absl::StatusOr<std::string> BuildExecPlan(const ExecSpec& spec);

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_EXEC_PLAN_H_
