#include "policy/device_bpf.h"

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sandboxd {
namespace {

// Jump distances are counted from the next instruction; the verdicts are the last two pairs.
bpf_insn LoadField(int to, size_t offset) {
  return {.code = BPF_LDX | BPF_W | BPF_MEM,
          .dst_reg = static_cast<uint8_t>(to & 15),
          .src_reg = BPF_REG_1,
          .off = static_cast<int16_t>(offset),
          .imm = 0};
}
bpf_insn MoveRegister(int to, int from) {
  return {.code = BPF_ALU64 | BPF_MOV | BPF_X,
          .dst_reg = static_cast<uint8_t>(to & 15),
          .src_reg = static_cast<uint8_t>(from & 15),
          .off = 0,
          .imm = 0};
}
bpf_insn Constant(uint8_t code, int reg, int32_t value, int16_t jump = 0) {
  return {.code = code,
          .dst_reg = static_cast<uint8_t>(reg & 15),
          .src_reg = 0,
          .off = jump,
          .imm = value};
}
bpf_insn Exit() {
  return {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0};
}

constexpr uint8_t kIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
constexpr uint8_t kIfNotEqual = BPF_JMP | BPF_JNE | BPF_K;

struct Device {
  int32_t major;
  int32_t minor;
};
constexpr Device kDevices[] = {{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 2}};
constexpr int32_t kPtsMajor = 136;

}  // namespace

std::string DeviceProgram() {
  constexpr size_t kDeviceCount = sizeof kDevices / sizeof kDevices[0];
  std::vector<bpf_insn> program = {
      // r2: kind of device; r3: kind of access; r4, r5: numbers.
      LoadField(BPF_REG_2, offsetof(bpf_cgroup_dev_ctx, access_type)),
      MoveRegister(BPF_REG_3, BPF_REG_2),
      Constant(BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_2, 0xffff),
      Constant(BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_3, 16),
      Constant(BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_3, BPF_DEVCG_ACC_MKNOD),
      LoadField(BPF_REG_4, offsetof(bpf_cgroup_dev_ctx, major)),
      LoadField(BPF_REG_5, offsetof(bpf_cgroup_dev_ctx, minor)),
  };
  // Two instructions a device, and one for pseudo-terminals, lie between here and "deny".
  const int16_t to_deny = static_cast<int16_t>(2 * kDeviceCount + 2);
  program.push_back(Constant(kIfNotEqual, BPF_REG_2, BPF_DEVCG_DEV_CHAR, to_deny));
  program.push_back(Constant(kIfNotEqual, BPF_REG_3, 0, static_cast<int16_t>(to_deny - 1)));
  for (size_t i = 0; i < kDeviceCount; ++i) {
    // Past "deny" (two instructions) from the second of this pair.
    const int16_t to_allow = static_cast<int16_t>(2 * (kDeviceCount - i - 1) + 1 + 2);
    program.push_back(Constant(kIfNotEqual, BPF_REG_4, kDevices[i].major, 1));
    program.push_back(Constant(kIfEqual, BPF_REG_5, kDevices[i].minor, to_allow));
  }
  program.push_back(Constant(kIfEqual, BPF_REG_4, kPtsMajor, 2));
  program.push_back(Constant(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0));
  program.push_back(Exit());
  program.push_back(Constant(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 1));
  program.push_back(Exit());
  return std::string(reinterpret_cast<const char*>(program.data()),
                     program.size() * sizeof(bpf_insn));
}

}  // namespace sandboxd
