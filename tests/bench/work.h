// The pieces of work that benchmarks time, each as often as it is asked for.
#ifndef SANDBOXD_TESTS_BENCH_WORK_H_
#define SANDBOXD_TESTS_BENCH_WORK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sandboxd::bench {

// What one sample took, in microseconds: "total", and the parts that the work has.
using Sample = std::map<std::string, double>;

class Work {
 public:
  virtual ~Work() = default;
  virtual absl::StatusOr<Sample> Run() = 0;
};

// By the row's "kind":
//   cycle   "socket", "create" (params of sandbox.create), "argv": create, exec, kill, each waited
//           for. Parts: create, exec, kill.
//   exec    "socket", "sandbox", "argv", and "bytes" of standard output that must come.
//   list    "socket", "rows": pages of sandbox.list until all are there.
//   spawn   "argv", and "files" ({fd: path}) opened for it: vfork, exec and wait, its output thrown
//           away.
//   pipe    "argv", "bytes": the same, its output read through a pipe.
absl::StatusOr<std::unique_ptr<Work>> MakeWork(const nlohmann::json& row);

}  // namespace sandboxd::bench

#endif  // SANDBOXD_TESTS_BENCH_WORK_H_
