#ifndef SANDBOXD_RUNTIME_SHIM_STOPWATCH_H_
#define SANDBOXD_RUNTIME_SHIM_STOPWATCH_H_

#include <string.h>
#include <utility>

#include "runtime/shim/sys.h"
#include "runtime/stage_format.h"

namespace sandboxd::shim {

// Collects how long stages took: Lap() books the time since the last lap or Start().
class Stopwatch {
 public:
  void Start() { last_ = MonotonicMicros(); }
  void Lap(Stage stage) {
    const uint64_t now = MonotonicMicros();
    Book({stage, static_cast<uint32_t>(now - last_)});
    last_ = now;
  }
  // Adds laps that another process measured, and forgets the time they took here.
  void Merge(const StageTime* times, uint32_t count) {
    for (uint32_t i = 0; i < count && i < kMaxStageTimes; ++i) Book(times[i]);
    last_ = MonotonicMicros();
  }
  // Moves the laps out; returns how many they are.
  uint32_t TakeTo(StageTime* out) {
    memcpy(out, times_, count_ * sizeof(StageTime));
    return std::exchange(count_, 0);
  }

 private:
  void Book(StageTime time) {
    if (count_ < kMaxStageTimes) times_[count_++] = time;
  }

  uint64_t last_ = 0;
  uint32_t count_ = 0;
  StageTime times_[kMaxStageTimes] = {};
};

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_STOPWATCH_H_
