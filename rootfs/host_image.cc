#include "rootfs/host_image.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"

namespace sandboxd {
namespace {

constexpr size_t kMaxFile = 4 << 20;
constexpr size_t kMaxEntries = 20'000;
constexpr int kMaxDepth = 8;

// One entry of the root, before anything is written.
struct Entry {
  enum class Kind { kDirectory, kFile, kLink } kind;
  mode_t mode;
  std::string content;  // Of a file; target of a link.
  uid_t owner = 0;
};
using Tree = std::map<std::string, Entry>;  // By path: parents come before children.

struct Directory {
  const char* path;
  mode_t mode;
  uid_t owner = 0;
};
constexpr Directory kDirectories[] = {
    {"dev", 0755},       {"etc", 0755},     {"home", 0755},      {"home/user", 0755, 1000},
    {"media", 0755},     {"mnt", 0755},     {"opt", 0755},       {"proc", 0555},
    {"root", 0700},      {"run", 0755},     {"run/lock", 01777}, {"srv", 0755},
    {"sys", 0555},       {"tmp", 01777},    {"usr", 0755},       {"var", 0755},
    {"var/cache", 0755}, {"var/lib", 0755}, {"var/log", 0755},   {"var/tmp", 01777},
};

struct File {
  const char* path;
  const char* content;
};
constexpr File kFiles[] = {
    {"etc/passwd",
     "root:x:0:0:root:/root:/bin/sh\n"
     "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
     "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
     "user:x:1000:1000:user:/home/user:/bin/sh\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group",
     "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\nstaff:x:50:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
     "protocols: files\nservices: files\n"},
    {"etc/resolv.conf", ""},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
};

// What is taken over from the host's /etc, as far as everybody may read it there.
constexpr const char* kPublic[] = {
    "etc/alternatives",
    "etc/bash.bashrc",
    "etc/ca-certificates",
    "etc/ca-certificates.conf",
    "etc/debian_version",
    "etc/fonts",
    "etc/inputrc",
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "etc/localtime",
    "etc/magic",
    "etc/mime.types",
    "etc/os-release",
    "etc/perl",
    "etc/profile",
    "etc/profile.d",
    "etc/protocols",
    "etc/python3",
    "etc/python3.11",
    "etc/python3.12",
    "etc/python3.13",
    "etc/rpc",
    "etc/services",
    "etc/skel",
    "etc/ssl/certs",
    "etc/ssl/openssl.cnf",
    "etc/terminfo",
    "etc/timezone",
};

constexpr const char* kTopLevel[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

absl::StatusOr<std::string> ReadLink(const std::string& path) {
  std::string target(4096, '\0');
  const ssize_t n = readlink(path.c_str(), target.data(), target.size());
  if (n < 0) return ErrnoError(absl::StrCat("reading the link ", path));
  target.resize(static_cast<size_t>(n));
  return target;
}

absl::StatusOr<std::vector<std::string>> Names(const std::string& path) {
  DIR* stream = opendir(path.c_str());
  if (stream == nullptr) return ErrnoError(absl::StrCat("listing ", path));
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(stream);
  return names;
}

// Adds the host's /<path>, if it exists and is public. What is not is left out silently: it is the
// host's secret.
absl::Status AddPublic(const std::string& path, int depth, Tree& tree) {
  const std::string source = absl::StrCat("/", path);
  struct stat status;
  if (lstat(source.c_str(), &status) < 0) return absl::OkStatus();
  if (tree.size() >= kMaxEntries || depth > kMaxDepth) {
    return absl::ResourceExhaustedError(absl::StrCat(source, " holds too much for the image host"));
  }
  if (S_ISLNK(status.st_mode)) {
    ASSIGN_OR_RETURN(std::string target, ReadLink(source));
    tree[path] = {Entry::Kind::kLink, 0777, std::move(target)};
  } else if (S_ISDIR(status.st_mode) && (status.st_mode & 0005) == 0005) {
    tree[path] = {Entry::Kind::kDirectory, 0755, ""};
    ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(source));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(AddPublic(absl::StrCat(path, "/", name), depth + 1, tree));
    }
  } else if (S_ISREG(status.st_mode) && (status.st_mode & 0004) != 0) {
    ASSIGN_OR_RETURN(std::string content, ReadFile(AT_FDCWD, source, kMaxFile));
    tree[path] = {Entry::Kind::kFile, (status.st_mode & 0111) != 0 ? mode_t{0755} : mode_t{0644},
                  std::move(content)};
  }
  return absl::OkStatus();
}

absl::StatusOr<Tree> CollectRoot(std::vector<std::string>& binds) {
  Tree tree;
  for (const Directory& directory : kDirectories) {
    tree[directory.path] = {Entry::Kind::kDirectory, directory.mode, "", directory.owner};
  }
  tree["etc/ssl"] = {Entry::Kind::kDirectory, 0755, ""};
  for (const char* path : kPublic) RETURN_IF_ERROR(AddPublic(path, 0, tree));
  for (const File& file : kFiles) {
    tree[file.path] = {Entry::Kind::kFile, 0644, file.content};
  }
  tree["etc/mtab"] = {Entry::Kind::kLink, 0777, "/proc/self/mounts"};
  tree["var/run"] = {Entry::Kind::kLink, 0777, "/run"};
  tree["var/lock"] = {Entry::Kind::kLink, 0777, "/run/lock"};
  binds.emplace_back("usr");
  for (const char* name : kTopLevel) {
    const std::string source = absl::StrCat("/", name);
    struct stat status;
    if (lstat(source.c_str(), &status) < 0) continue;
    if (S_ISLNK(status.st_mode)) {
      ASSIGN_OR_RETURN(std::string target, ReadLink(source));
      tree[name] = {Entry::Kind::kLink, 0777, std::move(target)};
    } else if (S_ISDIR(status.st_mode)) {
      tree[name] = {Entry::Kind::kDirectory, 0755, ""};
      binds.emplace_back(name);
    }
  }
  return tree;
}

// FNV-1a: names content, guards nothing.
uint64_t Fingerprint(const Tree& tree) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](absl::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    hash *= 0x100000001b3;
  };
  for (const auto& [path, entry] : tree) {
    add(path);
    add(absl::StrCat(static_cast<int>(entry.kind), " ", entry.mode, " ", entry.owner));
    add(entry.content);
  }
  return hash;
}

absl::Status Write(int root, const std::string& path, const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kDirectory:
      // The mode by chmod: mkdir's is cut by the umask.
      if (mkdirat(root, path.c_str(), 0700) < 0 ||
          fchownat(root, path.c_str(), entry.owner, entry.owner, AT_SYMLINK_NOFOLLOW) < 0 ||
          fchmodat(root, path.c_str(), entry.mode, 0) < 0) {
        return ErrnoError(absl::StrCat("making /", path, " of the image host"));
      }
      return absl::OkStatus();
    case Entry::Kind::kFile: {
      RETURN_IF_ERROR(ReplaceFile(root, path, entry.content, 0600));
      if (fchmodat(root, path.c_str(), entry.mode, 0) < 0) {
        return ErrnoError(absl::StrCat("making /", path, " of the image host"));
      }
      return absl::OkStatus();
    }
    case Entry::Kind::kLink:
      if (symlinkat(entry.content.c_str(), root, path.c_str()) < 0) {
        return ErrnoError(absl::StrCat("making /", path, " of the image host"));
      }
      return absl::OkStatus();
  }
  return absl::InternalError("unknown entry");
}

// Writes the tree beside its final place and renames it there, so that a half-made one is never
// used.
absl::Status WriteTree(int store, const std::string& name, const Tree& tree) {
  const std::string temporary = absl::StrCat(name, ".new");
  RETURN_IF_ERROR(RemoveTree(store, temporary));
  if (mkdirat(store, temporary.c_str(), 0755) < 0) return ErrnoError("making the image host");
  ASSIGN_OR_RETURN(const UniqueFd root, OpenDirectory(store, temporary));
  if (fchmod(root.get(), 0755) < 0) return ErrnoError("making the image host");
  for (const auto& [path, entry] : tree) RETURN_IF_ERROR(Write(root.get(), path, entry));
  if (renameat(store, temporary.c_str(), store, name.c_str()) < 0) {
    return ErrnoError("finishing the image host");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Image>> MakeHostImage(const std::string& store) {
  std::vector<std::string> binds;
  ASSIGN_OR_RETURN(const Tree tree, CollectRoot(binds));
  RETURN_IF_ERROR(MakeDirectories(store, 0700));
  ASSIGN_OR_RETURN(const UniqueFd directory, OpenDirectory(AT_FDCWD, store));
  const std::string name = absl::StrFormat("host-%016x", Fingerprint(tree));
  if (faccessat(directory.get(), name.c_str(), F_OK, 0) < 0) {
    RETURN_IF_ERROR(WriteTree(directory.get(), name, tree));
  }
  auto image = std::make_shared<Image>();
  image->reference = "host";
  ASSIGN_OR_RETURN(UniqueFd root, OpenDirectory(directory.get(), name, O_PATH));
  image->layers.push_back(std::move(root));
  for (const std::string& bind : binds) {
    const std::string source = absl::StrCat("/", bind);
    UniqueFd fd(open(source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoError(absl::StrCat("opening ", source));
    image->binds.push_back({std::move(fd), bind});
  }
  return image;
}

}  // namespace sandboxd
