#include "sandboxd/server/create_spec.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/id.h"
#include "base/status.h"
#include "runtime/exec_plan.h"
#include "runtime/user_ref.h"
#include "sandboxd/wire/bytes.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::server {
namespace {

constexpr size_t kMaxName = 63;
constexpr size_t kMaxPath = 4000;
constexpr size_t kMaxLabels = 64;
constexpr size_t kMaxLabelKey = 128;
constexpr size_t kMaxLabelValue = 4096;
constexpr size_t kMaxLabelBytes = 64 << 10;  // All together.
constexpr size_t kMaxKey = 128;
constexpr int64_t kDefaultTmpfs = 64 << 20;

// [a-z0-9][a-z0-9-]{0,62}: also an RFC 1123 label.
bool IsLabel(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxName && text[0] != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
         });
}

bool IsPlainPath(absl::string_view path) {
  return absl::StartsWith(path, "/") && path.size() > 1 && path.size() <= kMaxPath &&
         !absl::StrContains(path, "//") && !absl::EndsWith(path, "/") &&
         !absl::StrContains(absl::StrCat(path, "/"), "/../") &&
         !absl::StrContains(absl::StrCat(path, "/"), "/./");
}

absl::Status ReadTmpfs(wire::FieldReader& reader, const Config& config, CreateSpec& spec) {
  const nlohmann::json* list = reader.Value("tmpfs");
  if (list == nullptr) return absl::OkStatus();
  const size_t most = static_cast<size_t>(config.limits.tmpfs_mounts);
  if (!list->is_array() || list->size() > most) {
    reader.Fail("tmpfs",
                absl::StrCat("must be a list of at most ", most, " (limits.tmpfs_mounts)"));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < list->size(); ++i) {
    wire::FieldReader fields((*list)[i], absl::StrCat("params.tmpfs[", i, "]"));
    TmpfsSpec tmpfs;
    tmpfs.path = fields.RequiredBytes("path");
    tmpfs.size_bytes = static_cast<uint64_t>(
        fields.Integer("size_bytes", std::min(kDefaultTmpfs, config.limits.tmpfs_bytes), 4096,
                       config.limits.tmpfs_bytes));
    tmpfs.mode = static_cast<uint32_t>(fields.Integer("mode", 01777, 0, 01777));
    if (!IsPlainPath(tmpfs.path)) {
      fields.Fail("path", "must be an absolute path without ., .. or doubled slashes");
    }
    RETURN_IF_ERROR(fields.Finish());
    spec.tmpfs.push_back(std::move(tmpfs));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CreateSpec> ParseCreate(const nlohmann::json& params, const Config& config) {
  wire::FieldReader reader(params, "params");
  CreateSpec spec;
  spec.image = reader.RequiredString("image");
  spec.name = reader.String("name");
  spec.env = reader.BytesList("env");
  spec.cwd = reader.Bytes("cwd", "/");
  spec.user = reader.String("user", "0");
  spec.hostname = reader.String("hostname");
  spec.timeout_ms = reader.Integer("timeout_ms", 0, 1, config.limits.timeout_max_ms);
  spec.read_only_root = reader.Bool("read_only_root", false);
  spec.profile = reader.String("profile", "default");
  spec.idempotency_key = reader.String("idempotency_key");
  spec.labels = reader.StringMap("labels", kMaxLabels, kMaxLabelKey, kMaxLabelValue);
  size_t label_bytes = 0;
  for (const auto& [key, value] : spec.labels) label_bytes += key.size() + value.size();
  if (label_bytes > kMaxLabelBytes) reader.Fail("labels", "must have at most 65536 bytes together");
  RETURN_IF_ERROR(ReadTmpfs(reader, config, spec));
  if (!spec.name.empty() && (!IsLabel(spec.name) || IsId(spec.name))) {
    reader.Fail("name", "must be 1 to 63 of a-z, 0-9 and -, not beginning with -, and not an id");
  }
  if (!spec.hostname.empty() && !IsLabel(spec.hostname)) {
    reader.Fail("hostname", "must be 1 to 63 of a-z, 0-9 and -, not beginning with -");
  }
  if (spec.cwd.empty() || spec.cwd[0] != '/') reader.Fail("cwd", "must be an absolute path");
  if (spec.idempotency_key.size() > kMaxKey) reader.Fail("idempotency_key", "at most 128 bytes");
  RETURN_IF_ERROR(reader.Finish());
  RETURN_IF_ERROR(ParseUserRef(spec.user).status());
  RETURN_IF_ERROR(MergeEnv({&spec.env}).status());
  return spec;
}

nlohmann::json ToParams(const CreateSpec& spec) {
  nlohmann::json params = {
      {"image", spec.image},   {"cwd", wire::BytesToJson(spec.cwd)},    {"user", spec.user},
      {"labels", spec.labels}, {"read_only_root", spec.read_only_root}, {"profile", spec.profile}};
  if (!spec.name.empty()) params["name"] = spec.name;
  if (!spec.hostname.empty()) params["hostname"] = spec.hostname;
  if (spec.timeout_ms != 0) params["timeout_ms"] = spec.timeout_ms;
  if (!spec.idempotency_key.empty()) params["idempotency_key"] = spec.idempotency_key;
  params["env"] = nlohmann::json::array();
  for (const std::string& entry : spec.env) params["env"].push_back(wire::BytesToJson(entry));
  params["tmpfs"] = nlohmann::json::array();
  for (const TmpfsSpec& tmpfs : spec.tmpfs) {
    params["tmpfs"].push_back({{"path", wire::BytesToJson(tmpfs.path)},
                               {"size_bytes", tmpfs.size_bytes},
                               {"mode", tmpfs.mode}});
  }
  return params;
}

}  // namespace sandboxd::server
