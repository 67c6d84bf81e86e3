// The probe's answer: whatever the bytes, judging them ends without a crash; what is taken gives
// one verdict on each layer, with short and printable evidence; and no bytes alone prove a keyring,
// which only the host can see.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/string_view.h"
#include "runtime/isolation_report.h"

namespace sandboxd {
namespace {

constexpr size_t kMaxEvidence = 512;

void Require(bool condition) {
  if (!condition) abort();
}

void Judge(absl::string_view bytes) {
  const auto answer = ParseProbeAnswer(bytes);
  Require(answer.ok() || answer.status().code() == absl::StatusCode::kDataLoss);
  if (!answer.ok()) return;
  for (const Profile* profile : {&DefaultProfile(), &StrictProfile()}) {
    const auto report = JudgeLayers(*answer, {*profile, 0x70000000, {{0, 0, 1, 1}}, HostView{}});
    Require(report.size() == AllLayers().size());
    for (size_t i = 0; i < report.size(); ++i) {
      const LayerReport& layer = report[i];
      Require(layer.layer == AllLayers()[i]);
      Require(layer.in_force.has_value() || layer.layer == Layer::kTimeNamespace);
      Require(layer.layer != Layer::kSessionKeyring || !*layer.in_force);
      Require(!layer.evidence.empty() && layer.evidence.size() <= kMaxEvidence);
      for (const char c : layer.evidence) Require(c >= ' ' && c <= '~');
    }
  }
}

}  // namespace
}  // namespace sandboxd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandboxd;
  Judge(absl::string_view(reinterpret_cast<const char*>(data), size));
  // The same bytes as the fields behind a sound beginning: past the first checks at once.
  ProbeAnswer answer = {};
  constexpr size_t kBegin = offsetof(ProbeAnswer, namespaces);
  if (size > 0) {
    memcpy(reinterpret_cast<char*>(&answer) + kBegin, data, std::min(size, sizeof answer - kBegin));
  }
  answer.magic = kProbeMagic;
  answer.size = sizeof answer;
  answer.device = kRefusedDevice;
  Judge(absl::string_view(reinterpret_cast<const char*>(&answer), sizeof answer));
  return 0;
}
