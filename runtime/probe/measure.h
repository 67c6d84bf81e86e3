// The parts of the probe; each fills in its fields of the answer. What cannot be looked at stays 0,
// which no layer in force shows. Nothing is left behind: what an attempt makes it removes.
#ifndef SANDBOXD_RUNTIME_PROBE_MEASURE_H_
#define SANDBOXD_RUNTIME_PROBE_MEASURE_H_

#include "runtime/probe_format.h"

namespace sandboxd::probe {

// What the kernel says about this process (process.cc).
void MeasureProcess(ProbeAnswer& answer);

// File systems, mounts and what is on them (files.cc). `paths` is argv from its second element on.
void MeasureFiles(char** paths, ProbeAnswer& answer);

// What is tried for real (attempts.cc). False where an attempt could not even be made.
bool MakeAttempts(ProbeAnswer& answer);

}  // namespace sandboxd::probe

#endif  // SANDBOXD_RUNTIME_PROBE_MEASURE_H_
