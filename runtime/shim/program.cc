#include "runtime/shim/program.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cerrno>

#include "runtime/shim/channel.h"
#include "runtime/shim/confine.h"
#include "runtime/shim/plan_view.h"
#include "runtime/shim/slot.h"
#include "runtime/shim/sys.h"
#include "runtime/shim/user.h"

namespace sandboxd::shim {
namespace {

class Program {
 public:
  explicit Program(const SlotStart& start) : start_(start) {}

  [[noreturn]] void Run() {
    TakeStandardStreams();
    Enter();
    FdList fds;
    Await(SlotOrder::kEnter, fds);
    Confine();
    Report({});
    Await(SlotOrder::kRun, fds);
    const int plan = fds.Take(0);
    const int program = fds.Take(1);
    Execute(plan, program, fds.Take(2));
  }

 private:
  void Report(StageFailure failure) {
    SlotReport report = {};
    report.failure = failure;
    report.pid_inside = getpid();
    (void)!write(start_.control, &report, sizeof report);
  }

  void Check(Stage stage, int error) {
    if (error == 0) return;
    Report({stage, error, 0});
    _exit(127);
  }

  void Await(SlotOrder expected, FdList& fds) {
    SlotOrder order;
    if (Receive(start_.control, &order, sizeof order, fds, /*wait=*/true) <= 0) _exit(0);
    Check(Stage::kReadPlan, order == expected ? 0 : EPROTO);
  }

  void TakeStandardStreams() {
    prctl(PR_SET_NAME, "sandboxd-slot");
    dup2(start_.stdin_read, STDIN_FILENO);
    dup2(start_.stdout_write, STDOUT_FILENO);
    dup2(start_.stderr_write, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);  // All that the zygote ignores; the shim has taken SIGCHLD back.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    umask(022);
  }

  // Every namespace of init's but the pid namespace, in which this process was born, and the mount
  // namespace: see MakeSlot().
  void Enter() {
    const PreparePlan& plan = *start_.prepare;
    WriteFileAt(AT_FDCWD, "/proc/self/oom_score_adj", kExecOomScore);
    const uint64_t namespaces = plan.namespaces & ~uint64_t{CLONE_NEWPID | CLONE_NEWNS};
    Check(Stage::kEnterNamespaces, Result(setns(start_.init_pidfd, static_cast<int>(namespaces))));
    CloseAllBut({start_.control, start_.filter, start_.mount_namespace});
    Check(Stage::kEnterNamespaces, BecomeRootInside());
    if ((plan.flags & kPrepareOwnSession) != 0) Check(Stage::kOwnSession, Result(setsid()));
    if ((plan.flags & kPrepareSessionKeyring) != 0) {
      Check(Stage::kSessionKeyring, NewSessionKeyring());
    }
    Check(Stage::kCapabilities, LimitBoundingSet(plan.capabilities));
  }

  // From here to Execute() the process has the sandbox root's capabilities within the bounding set,
  // and is under the filter: it still has to become its user.
  void Confine() {
    if ((start_.prepare->namespaces & CLONE_NEWNS) != 0) {
      Check(Stage::kEnterNamespaces, Result(setns(start_.mount_namespace, CLONE_NEWNS)));
    }
    close(start_.mount_namespace);
    if ((start_.prepare->flags & kPrepareNoNewPrivileges) != 0) {
      Check(Stage::kNoNewPrivileges, SetNoNewPrivileges());
    }
    Check(Stage::kSeccomp, LoadSeccompFilter(start_.filter));
  }

  [[noreturn]] void Execute(int plan_fd, int program, int input) {
    Check(Stage::kReadPlan, plan_.Map(plan_fd, PlanKind::kExec, sizeof(ExecPlan)));
    const ExecPlan& plan = *plan_.As<ExecPlan>();
    char** argv = Pointers(plan.argv);
    char** env = Pointers(plan.env);
    Check(Stage::kReadPlan, argv == nullptr || env == nullptr || argv[0] == nullptr ? EBADMSG : 0);
    if (input >= 0) {
      Check(Stage::kStdin, Result(dup2(input, STDIN_FILENO)));
    } else if ((plan.flags & kExecStdinPipe) == 0) {
      Check(Stage::kStdin, NullStdin());
    }

    User user = {};
    const UserFailure failure = FindUser(plan_, plan, user);
    Check(failure.stage, failure.error);
    if (plan.has_home == 0) SetHome(env, plan.env.count, user);
    SetRlimits();
    Check(Stage::kUser, Become(user, plan.capabilities));
    umask(plan.umask);
    const char* cwd = plan_.String(plan.cwd);
    Check(Stage::kWorkingDirectory, cwd == nullptr ? EBADMSG : Result(chdir(cwd)));
    if (program >= 0) {
      syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
      Check(Stage::kExecute, errno);
    }
    Search(argv, env, plan_.String(plan.path));
  }

  // Turns an array of offsets into one of pointers, in place.
  char** Pointers(const PlanArray& array) {
    uint64_t* elements = plan_.Elements<uint64_t>(array);
    if (elements == nullptr || array.count == 0 || elements[array.count - 1] != 0) return nullptr;
    char** pointers = reinterpret_cast<char**>(elements);
    for (uint32_t i = 0; i < array.count; ++i) {
      pointers[i] = const_cast<char*>(plan_.String(static_cast<PlanString>(elements[i])));
    }
    return pointers;
  }

  int NullStdin() {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (null < 0) return errno;
    struct stat status;
    if (fstat(null, &status) < 0) return errno;
    if (!S_ISCHR(status.st_mode) || status.st_rdev != makedev(1, 3)) return ENODEV;
    return Result(dup2(null, STDIN_FILENO));
  }

  void SetHome(char** env, uint32_t count, const User& user) {
    static char home[6 + kMaxHome];
    strcpy(stpcpy(home, "HOME="), user.home);
    // The plan leaves a spare element before the last.
    for (uint32_t i = 0; i + 1 < count; ++i) {
      if (env[i] == nullptr) {
        env[i] = home;
        return;
      }
    }
  }

  void SetRlimits() {
    const ExecPlan& plan = *plan_.As<ExecPlan>();
    const PlanRlimit* limits = plan_.Elements<PlanRlimit>(plan.rlimits);
    Check(Stage::kRlimits, limits == nullptr || plan.rlimits.count > kMaxRlimits ? EBADMSG : 0);
    for (uint32_t i = 0; i < plan.rlimits.count; ++i) {
      const rlimit limit = {.rlim_cur = limits[i].soft, .rlim_max = limits[i].hard};
      Check(Stage::kRlimits, Result(prlimit(0, static_cast<__rlimit_resource>(limits[i].resource),
                                            &limit, nullptr)));
    }
  }

  int Become(const User& user, uint64_t capabilities) {
    if (syscall(SYS_setgroups, user.group_count, user.groups) < 0) return errno;
    if (syscall(SYS_setresgid, user.gid, user.gid, user.gid) < 0) return errno;
    if (syscall(SYS_setresuid, user.uid, user.uid, user.uid) < 0) return errno;
    if (prctl(PR_SET_DUMPABLE, 0) < 0) return errno;  // As in BecomeRootInside().
    // A change away from uid 0 has cleared them; for uid 0 they shrink to the plan's.
    return SetCapabilities(user.uid == 0 ? capabilities : 0);
  }

  // Runs argv[0], looked up in `path` as execvp(3) does, but never handing a file to a shell. Of
  // several failures the most telling one is reported.
  [[noreturn]] void Search(char** argv, char** env, const char* path) {
    if (path == nullptr) {
      execve(argv[0], argv, env);
      FailExecute(argv[0], errno);
    }
    static char candidate[4096];
    int best = ENOENT;
    for (const char* part = path;; ++part) {
      const size_t length = strcspn(part, ":");
      const size_t name_length = strlen(argv[0]);
      if (length + name_length + 3 <= sizeof candidate) {
        char* out = candidate;
        memcpy(out, length == 0 ? "." : part, length == 0 ? 1 : length);
        out += length == 0 ? 1 : length;
        *out++ = '/';
        memcpy(out, argv[0], name_length + 1);
        execve(candidate, argv, env);
        if (errno == ENOENT && access(candidate, F_OK) == 0) FailExecute(candidate, ENOENT);
        if (errno == EACCES) {
          best = EACCES;
        } else if (errno != ENOENT && errno != ENOTDIR) {
          FailExecute(candidate, errno);
        }
      }
      part += length;
      if (*part == '\0') break;
    }
    Check(Stage::kExecute, best);
    _exit(127);
  }

  // ENOENT for a file that is there is about its interpreter, or its ELF loader.
  [[noreturn]] void FailExecute(const char* path, int error) {
    const bool there = error == ENOENT && access(path, F_OK) == 0;
    Check(there ? Stage::kInterpreter : Stage::kExecute, error);
    _exit(127);
  }

  const SlotStart start_;
  PlanView plan_;
};

}  // namespace

void RunSlot(const SlotStart& start) { Program(start).Run(); }

}  // namespace sandboxd::shim
