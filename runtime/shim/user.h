// Users as the sandbox's own /etc/passwd and /etc/group name them. Read inside the sandbox, by a
// process that has no more rights than the sandbox's root; no name service, no library.
#ifndef SANDBOXD_RUNTIME_SHIM_USER_H_
#define SANDBOXD_RUNTIME_SHIM_USER_H_

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include "runtime/plan_format.h"
#include "runtime/shim/plan_view.h"
#include "runtime/stage_format.h"

namespace sandboxd::shim {

inline constexpr size_t kMaxHome = 1024;

struct User {
  uid_t uid;
  gid_t gid;
  gid_t groups[kMaxGroups];
  size_t group_count;
  char home[kMaxHome];  // "/" where passwd says nothing.
};

struct UserFailure {
  Stage stage;
  int error;  // 0, or ENOENT: no such user or group; others: the file cannot be used.
};

// Resolves the plan's user. A named user must be in /etc/passwd, and gets the groups that
// /etc/group lists it in; a numeric one need not be there and gets no supplementary groups. The
// files must be regular and at most 1 MiB; lines over 4 KiB and ids that are not plain decimal
// numbers below 65536 are skipped as if they were not there.
UserFailure FindUser(const PlanView& view, const ExecPlan& plan, User& user);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_USER_H_
