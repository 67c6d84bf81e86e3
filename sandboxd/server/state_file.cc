#include "sandboxd/server/state_file.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sandboxd::server {
namespace {

constexpr absl::string_view kMagic = "sandboxd-state";
constexpr size_t kFields = 5;

std::string Checksum(absl::string_view head, absl::string_view body) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const absl::string_view part : {head, body}) {
    for (const char c : part) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return absl::StrCat(absl::Hex(sum, absl::kZeroPad16));
}

std::string Head(absl::string_view schema, absl::string_view boot_id, absl::string_view id_base) {
  return absl::StrCat(kMagic, " ", schema, " ", boot_id, " ", id_base, " ");
}

}  // namespace

std::string EncodeState(absl::string_view boot_id, uint32_t id_base, const nlohmann::json& body) {
  const std::string head = Head(absl::StrCat(kStateSchema), boot_id, absl::StrCat(id_base));
  const std::string text = body.dump();
  return absl::StrCat(head, Checksum(head, text), "\n", text);
}

State DecodeState(absl::string_view text, absl::string_view boot_id) {
  State state;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('\n', 1));
  const std::vector<absl::string_view> fields = absl::StrSplit(parts.first, ' ');
  int schema = 0;
  if (fields.size() != kFields || fields[0] != kMagic || !absl::SimpleAtoi(fields[1], &schema) ||
      schema < 1 || !absl::SimpleAtoi(fields[3], &state.id_base) ||
      fields[4] != Checksum(Head(fields[1], fields[2], fields[3]), parts.second)) {
    return state;
  }
  if (fields[2] != boot_id) {
    state.verdict = StateVerdict::kOtherBoot;
  } else if (schema > kStateSchema) {
    state.verdict = StateVerdict::kNewer;
  } else {
    state.body = nlohmann::json::parse(parts.second.begin(), parts.second.end(), nullptr,
                                       /*allow_exceptions=*/false);
    if (state.body.is_object()) state.verdict = StateVerdict::kSound;
  }
  return state;
}

}  // namespace sandboxd::server
