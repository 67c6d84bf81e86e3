// The restrictions that init and every exec put on themselves, one function a layer. Each returns 0
// or an errno value.
#ifndef SANDBOXD_RUNTIME_SHIM_CONFINE_H_
#define SANDBOXD_RUNTIME_SHIM_CONFINE_H_

#include <cstdint>

namespace sandboxd::shim {

// Become uid 0 and gid 0 of the current user namespace, without supplementary groups, and not
// dumpable: nothing of the same user may trace it (ptrace(2)).
int BecomeRootInside();

// A new, anonymous session keyring in place of the daemon's (keyctl(2) JOIN_SESSION_KEYRING).
int NewSessionKeyring();

// Removes every capability but those of `mask` from the bounding set, and clears the ambient and
// inheritable sets. Needs CAP_SETPCAP.
int LimitBoundingSet(uint64_t mask);

// Permitted and effective become `mask`; inheritable empty.
int SetCapabilities(uint64_t mask);

int SetNoNewPrivileges();

// Loads the classic BPF program that is the whole content of `fd`, and closes it. An empty file
// loads nothing.
int LoadSeccompFilter(int fd);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_CONFINE_H_
