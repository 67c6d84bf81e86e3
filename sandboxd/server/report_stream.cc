#include "sandboxd/server/report_stream.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::server {
namespace {

// Whatever came through the pipe, if it has the size of an answer: asked first, since a read of
// less could wait for ever.
absl::StatusOr<ProbeAnswer> ReadAnswer(int pipe) {
  int waiting = 0;
  std::string bytes;
  if (ioctl(pipe, FIONREAD, &waiting) == 0 && waiting == sizeof(ProbeAnswer)) {
    bytes.resize(sizeof(ProbeAnswer));
    const ssize_t n = read(pipe, bytes.data(), bytes.size());
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
  } else {
    bytes.resize(waiting < 0 ? 0 : static_cast<size_t>(waiting));
  }
  return ParseProbeAnswer(bytes);
}

nlohmann::json LayersJson(const std::vector<LayerReport>& layers) {
  nlohmann::json list = nlohmann::json::array();
  for (const LayerReport& layer : layers) {
    list.push_back(
        {{"name", std::string(LayerName(layer.layer))},
         {"in_force", layer.in_force.has_value() ? nlohmann::json(*layer.in_force) : nullptr},
         {"evidence", layer.evidence}});
  }
  return list;
}

}  // namespace

ReportStream::ReportStream(Connection& connection, uint64_t stream, Sandboxes& sandboxes,
                           const Sandbox& sandbox)
    : connection_(connection), stream_(stream), sandboxes_(sandboxes), sandbox_id_(sandbox.id()) {}

ReportStream::~ReportStream() {
  Sandbox* box = sandbox();
  if (box == nullptr || exec_ == 0) return;
  if (!exited_) box->CancelExec(exec_);
  box->DetachExec(exec_);
}

// The sandbox may be gone before this stream is.
Sandbox* ReportStream::sandbox() {
  const auto it = sandboxes_.all().find(sandbox_id_);
  return it == sandboxes_.all().end() ? nullptr : it->second.get();
}

absl::Status ReportStream::ProbeError(absl::string_view what) const {
  const std::string object = absl::StrCat("sandbox ", sandbox_id_);
  return ReasonError(
      absl::StatusCode::kAborted, "PROBE_FAILED", object,
      absl::StrCat("the isolation probe in ", object, " gave no answer that counts: ", what,
                   "; nothing is known about its layers"));
}

absl::Status ReportStream::Start(const Prober& prober) {
  Sandbox& box = *sandbox();
  Sandbox::ExecRequest request;
  request.spec.argv = Prober::Arguments(box.profile());
  request.spec.user.gid = 0;  // Whatever the passwd inside says.
  request.spec.program_fd = true;
  sandboxes_.Confine(box, request.spec);
  request.timeout_ms = static_cast<uint64_t>(connection_.config().limits.report_timeout_ms);
  request.grace_ms = 0;
  request.program = prober.program();
  request.input = prober.device();
  ASSIGN_OR_RETURN(exec_, box.StartExec(std::move(request), this));
  return absl::OkStatus();
}

void ReportStream::OnStarted(uint64_t, pid_t, std::vector<UniqueFd> fds) {
  if (!fds.empty()) output_ = std::move(fds[0]);
}

// The stream lives on for the rest of the turn: a second event must not answer again.
void ReportStream::Fail(const absl::Status& status) {
  if (!std::exchange(answered_, true)) connection_.Error(stream_, status);
}

void ReportStream::OnFailed(const absl::Status& status) {
  exec_ = 0;
  Fail(status);
}

void ReportStream::OnCancel() {
  Fail(ReasonError(absl::StatusCode::kCancelled, "CANCELLED", "stream", "the client cancelled"));
}

absl::StatusOr<ProbeAnswer> ReportStream::Collect(const ExecEnd& end) {
  if (end.reason == "sandbox_ended") {
    return ReasonError(absl::StatusCode::kAborted, "SANDBOX_ENDED",
                       absl::StrCat("sandbox ", sandbox_id_),
                       absl::StrCat("sandbox ", sandbox_id_, " ended during the report"));
  }
  if (end.timed_out) return ProbeError("it took longer than limits.report_timeout_ms");
  if (end.signal != 0) return ProbeError(absl::StrCat("signal ", end.signal, " ended it"));
  if (end.exit_code != 0) return ProbeError(absl::StrCat("it exited with code ", end.exit_code));
  auto answer = ReadAnswer(output_.get());
  if (!answer.ok()) return ProbeError(answer.status().message());
  return answer;
}

absl::StatusOr<nlohmann::json> ReportStream::Judge(const ExecEnd& end) {
  ASSIGN_OR_RETURN(const ProbeAnswer answer, Collect(end));
  const Sandbox& box = *sandbox();
  ASSIGN_OR_RETURN(HostView host, Prober::LookAtHost(box.box().init_pid(), box.box().id_base()));
  const ReportSubject subject = {
      .profile = box.profile(),
      .id_base = box.box().id_base(),
      // What the profile promises, whatever this daemon was told to leave out.
      .rlimits = ExecRlimits(box.profile(), LayerSet::All()),
      .host = host,
  };
  return nlohmann::json{{"id", sandbox_id_},
                        {"profile", box.profile().name},
                        {"layers", LayersJson(JudgeLayers(answer, subject))}};
}

void ReportStream::OnExited(ExecEnd& end) {
  exited_ = true;
  if (answered_) return;
  const auto report = Judge(end);
  if (!report.ok()) return Fail(report.status());
  answered_ = true;
  connection_.Reply(stream_, *report);
  connection_.CloseStream(stream_);
}

}  // namespace sandboxd::server
