#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/probe/measure.h"
#include "runtime/probe/text.h"

namespace sandboxd::probe {
namespace {

void MeasureNamespaces(ProbeAnswer& answer) {
  for (size_t i = 0; i < kProbeNamespaces; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kProbeNamespaceNames[i]);
    struct stat status;
    if (stat(path, &status) == 0) answer.namespaces[i] = status.st_ino;
  }
}

void MeasureIdMap(const char* path, ProbeIdMap& map) {
  char text[4096];
  if (!ReadText(path, text, sizeof text)) return;
  for (const char* c = text; *c != '\0'; ++c) map.lines += *c == '\n' ? 1 : 0;
  char* end = text;
  map.inside = static_cast<uint32_t>(strtoul(end, &end, 10));
  map.outside = static_cast<uint32_t>(strtoul(end, &end, 10));
  map.count = static_cast<uint32_t>(strtoul(end, &end, 10));
}

void MeasureStatus(ProbeAnswer& answer) {
  // All bits: the worst, should the kernel not say.
  constexpr uint64_t kAll = ~uint64_t{0};
  for (uint64_t& set : answer.capabilities) set = kAll;
  char text[8192];
  if (!ReadText("/proc/self/status", text, sizeof text)) return;
  constexpr const char* kNames[kProbeCapabilitySets] = {"CapInh:\t", "CapPrm:\t", "CapEff:\t",
                                                        "CapBnd:\t", "CapAmb:\t"};
  for (size_t i = 0; i < kProbeCapabilitySets; ++i) {
    answer.capabilities[i] = NumberAfter(text, kNames[i], 16, kAll);
  }
  answer.seccomp_mode = static_cast<uint32_t>(NumberAfter(text, "Seccomp:\t", 10, 0));
}

void MeasureRlimits(ProbeAnswer& answer) {
  for (size_t i = 0; i < kProbeRlimits; ++i) {
    rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(static_cast<__rlimit_resource>(i), &limit);
    answer.rlimits[i] = {limit.rlim_cur, limit.rlim_max};
  }
}

// "monotonic  SECONDS  NANOSECONDS" and the same for boottime.
void MeasureClocks(ProbeAnswer& answer) {
  char text[256];
  if (!ReadText("/proc/self/timens_offsets", text, sizeof text)) return;
  answer.monotonic_offset = static_cast<int64_t>(NumberAfter(text, "monotonic", 10, 0));
  answer.boottime_offset = static_cast<int64_t>(NumberAfter(text, "boottime", 10, 0));
}

// One a line, after two lines of heading.
void MeasureInterfaces(ProbeAnswer& answer) {
  static char text[65536];
  if (!ReadText("/proc/self/net/dev", text, sizeof text)) return;
  uint32_t lines = 0;
  for (const char* c = text; *c != '\0'; ++c) lines += *c == '\n' ? 1 : 0;
  answer.interfaces = lines < 2 ? 0 : lines - 2;
}

}  // namespace

void MeasureProcess(ProbeAnswer& answer) {
  MeasureNamespaces(answer);
  MeasureIdMap("/proc/self/uid_map", answer.uid_map);
  MeasureIdMap("/proc/self/gid_map", answer.gid_map);
  MeasureStatus(answer);
  answer.no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 1 : 0;
  answer.pid = getpid();
  answer.session = getsid(0);
  MeasureRlimits(answer);
  MeasureClocks(answer);
  MeasureInterfaces(answer);
}

}  // namespace sandboxd::probe
