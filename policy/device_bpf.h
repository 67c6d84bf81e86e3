#ifndef SANDBOXD_POLICY_DEVICE_BPF_H_
#define SANDBOXD_POLICY_DEVICE_BPF_H_

#include <string>

namespace sandboxd {

// A BPF_PROG_TYPE_CGROUP_DEVICE program (bpf(2)) as its raw instructions: reading and writing null,
// zero, full, random, urandom, tty, ptmx and pseudo-terminals, and nothing else; no device is made.
std::string DeviceProgram();

}  // namespace sandboxd

#endif  // SANDBOXD_POLICY_DEVICE_BPF_H_
