// The isolation probe: sandboxd-probe [masked:PATH | read-only:PATH]…, with a device node that the
// device filter does not allow as standard input. The daemon runs it inside a sandbox, as any exec,
// from a sealed memory file. It writes one ProbeAnswer; the exit code is 0 if that is whole.
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/probe/measure.h"

int main(int argc, char** argv) {
  if (argc < 1) return 2;
  // Its file cannot be read inside, so it began like this; nothing may trace it (ptrace(2)).
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  static sandboxd::ProbeAnswer answer;
  answer.magic = sandboxd::kProbeMagic;
  answer.size = sizeof answer;
  sandboxd::probe::MeasureProcess(answer);
  sandboxd::probe::MeasureFiles(argv + 1, answer);
  if (!sandboxd::probe::MakeAttempts(answer)) return 1;
  // Fits into an empty pipe: written at once or not at all.
  return write(STDOUT_FILENO, &answer, sizeof answer) == sizeof answer ? 0 : 1;
}
