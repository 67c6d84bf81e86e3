#ifndef SANDBOXD_SERVER_REPORT_STREAM_H_
#define SANDBOXD_SERVER_REPORT_STREAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/prober.h"
#include "sandboxd/server/connection.h"
#include "sandboxd/server/sandboxes.h"

namespace sandboxd::server {

// A report of a client: the probe runs as an exec, and its answer is judged when it has ended. What
// the probe writes is less than a pipe holds, so nothing is read before.
class ReportStream : public Stream, public ExecObserver {
 public:
  ReportStream(Connection& connection, uint64_t stream, Sandboxes& sandboxes,
               const Sandbox& sandbox);
  ~ReportStream() override;

  // Starts the probe. On failure the caller answers with the error.
  absl::Status Start(const Prober& prober);

  // Stream
  void OnCancel() override;

  // ExecObserver
  void OnStarted(uint64_t exec, pid_t pid_inside, std::vector<UniqueFd> fds) override;
  void OnFailed(const absl::Status& status) override;
  void OnExited(ExecEnd& end) override;

 private:
  Sandbox* sandbox();
  void Fail(const absl::Status& status);
  absl::Status ProbeError(absl::string_view what) const;
  absl::StatusOr<ProbeAnswer> Collect(const ExecEnd& end);
  absl::StatusOr<nlohmann::json> Judge(const ExecEnd& end);

  Connection& connection_;
  const uint64_t stream_;
  Sandboxes& sandboxes_;
  const std::string sandbox_id_;
  uint64_t exec_ = 0;  // 0: there is nothing to end or to detach from.
  bool exited_ = false;
  bool answered_ = false;
  UniqueFd output_;
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_REPORT_STREAM_H_
