#ifndef SANDBOXD_RUNTIME_SHIM_SHIM_H_
#define SANDBOXD_RUNTIME_SHIM_SHIM_H_

#include <cstdint>

namespace sandboxd::shim {

// What the zygote hands to a new shim: descriptors the shim then owns, and the sandbox's id range.
struct ShimStart {
  int connection;
  int listener;
  int cgroup;
  int plan;
  int init_filter;
  int exec_filter;
  uint32_t id_base;
  uint32_t id_count;
};

// The life of one shim: prepares a sandbox, waits for its image, runs its execs, ends it. Until
// the launch it ends with its daemon; after it, only Kill ends it.
[[noreturn]] void RunShim(const ShimStart& start);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_SHIM_H_
