#include "runtime/shim/user.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

namespace sandboxd::shim {
namespace {

constexpr off_t kMaxFile = 1 << 20;
constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxFields = 8;
constexpr uint32_t kIdLimit = 65536;

// Lines of a small file, split at colons. Over-long lines are skipped whole.
class Table {
 public:
  ~Table() {
    if (fd_ >= 0) close(fd_);
  }

  int Open(const char* path) {
    // The sandbox decides what this path is: never block on it, never read a device.
    fd_ = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd_ < 0) return errno;
    struct stat status;
    if (fstat(fd_, &status) < 0) return errno;
    if (!S_ISREG(status.st_mode)) return EINVAL;
    return status.st_size > kMaxFile ? EFBIG : 0;
  }

  // Fills `fields` with the next line's; returns their number, 0 at the end.
  size_t Next(char* (&fields)[kMaxFields]) {
    while (ReadLine()) {
      size_t count = 0;
      char* rest = line_;
      while (count < kMaxFields) {
        fields[count++] = rest;
        char* colon = strchr(rest, ':');
        if (colon == nullptr) break;
        *colon = '\0';
        rest = colon + 1;
      }
      if (count > 1) return count;
    }
    return 0;
  }

 private:
  bool ReadLine() {
    bool too_long = false;
    size_t length = 0;
    while (true) {
      if (begin_ == end_) {
        const ssize_t n = total_ > kMaxFile ? 0 : read(fd_, buffer_, sizeof buffer_);
        if (n <= 0) break;
        total_ += n;
        begin_ = 0;
        end_ = static_cast<size_t>(n);
      }
      const char c = buffer_[begin_++];
      if (c == '\n') {
        if (!too_long) return Finish(length);
        too_long = false;
        length = 0;
      } else if (length + 1 < kMaxLine) {
        line_[length++] = c;
      } else {
        too_long = true;
      }
    }
    return length > 0 && !too_long && Finish(length);
  }

  bool Finish(size_t length) {
    if (length > 0 && line_[length - 1] == '\r') --length;
    line_[length] = '\0';
    return true;
  }

  int fd_ = -1;
  off_t total_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  char buffer_[4096];
  char line_[kMaxLine];
};

// Plain decimal below 65536; kNoId for anything else. Nothing is ever taken for 0 by mistake.
uint32_t ParseId(const char* text) {
  uint32_t value = 0;
  if (*text == '\0') return kNoId;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return kNoId;
    value = value * 10 + static_cast<uint32_t>(*text - '0');
    if (value >= kIdLimit) return kNoId;
  }
  return value;
}

// name:password:uid:gid:gecos:home:shell. Searches by name, or by uid where there is none.
int SearchPasswd(const char* name, User& user, bool& found) {
  static Table table;
  found = false;
  if (const int error = table.Open("/etc/passwd"); error != 0) return error == ENOENT ? 0 : error;
  char* fields[kMaxFields];
  for (size_t count; (count = table.Next(fields)) != 0;) {
    if (count < 6) continue;
    const uint32_t uid = ParseId(fields[2]);
    const uint32_t gid = ParseId(fields[3]);
    if (uid == kNoId || gid == kNoId) continue;
    if (name != nullptr ? strcmp(name, fields[0]) != 0 : uid != user.uid) continue;
    user.uid = uid;
    user.gid = gid;
    if (fields[5][0] == '/' && strlen(fields[5]) < kMaxHome) strcpy(user.home, fields[5]);
    found = true;
    return 0;
  }
  return 0;
}

bool ListContains(const char* list, const char* name) {
  const size_t length = strlen(name);
  while (true) {
    const size_t part = strcspn(list, ",");
    if (part == length && memcmp(list, name, length) == 0) return true;
    list += part;
    if (*list == '\0') return false;
    ++list;
  }
}

void AddGroup(User& user, gid_t gid) {
  for (size_t i = 0; i < user.group_count; ++i) {
    if (user.groups[i] == gid) return;
  }
  if (user.group_count < kMaxGroups) user.groups[user.group_count++] = gid;
}

// name:password:gid:members. Adds the groups of `member`, and finds the gid of `group`.
int SearchGroups(const char* member, const char* group, User& user, uint32_t& gid) {
  static Table table;
  gid = kNoId;
  if (const int error = table.Open("/etc/group"); error != 0) return error == ENOENT ? 0 : error;
  char* fields[kMaxFields];
  for (size_t count; (count = table.Next(fields)) != 0;) {
    if (count < 3) continue;
    const uint32_t found = ParseId(fields[2]);
    if (found == kNoId) continue;
    if (group != nullptr && gid == kNoId && strcmp(group, fields[0]) == 0) gid = found;
    if (member != nullptr && count > 3 && ListContains(fields[3], member)) AddGroup(user, found);
  }
  return 0;
}

}  // namespace

UserFailure FindUser(const PlanView& view, const ExecPlan& plan, User& user) {
  const char* name = view.String(plan.user_name);
  const char* group = view.String(plan.group_name);
  strcpy(user.home, "/");
  user.uid = plan.uid;
  user.gid = 0;
  bool found = false;
  const int error = SearchPasswd(name, user, found);
  if (name != nullptr && (error != 0 || !found)) return {Stage::kUser, error != 0 ? error : ENOENT};
  // A numeric user works whatever the image's passwd looks like.
  if (name == nullptr && plan.uid >= kIdLimit) return {Stage::kUser, EINVAL};
  uint32_t gid = plan.gid;
  if (name != nullptr || group != nullptr) {
    const int group_error = SearchGroups(name, group, user, gid);
    if (group != nullptr && (group_error != 0 || gid == kNoId)) {
      return {Stage::kGroups, group_error != 0 ? group_error : ENOENT};
    }
    if (group == nullptr) gid = plan.gid;
  }
  if (gid != kNoId) user.gid = gid;
  AddGroup(user, user.gid);  // A program that drops its gid must not lose what the group is denied.
  return {Stage::kNone, 0};
}

}  // namespace sandboxd::shim
