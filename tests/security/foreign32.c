// A hostile program for the 32-bit ABI, where a filter that knows only one ABI has its hole. Under
// ours every call is unimplemented, writing and exiting too, so its end says what it found: SIGILL
// where each attempt was ENOSYS, SIGSEGV where one was not.
#ifndef __clang__
#pragma GCC optimize("no-tree-loop-distribute-patterns")  // There is no memset to call.
#endif
enum { kNoSys = -38 };

// Exit aside (see below): write, mount, ptrace, keyctl, unshare, socketcall, bpf, io_uring_setup.
static const int kNumbers[] = {4, 21, 26, 288, 310, 102, 357, 425};

static int Call(int number, int a, int b, int c) {
  int result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
  return result;
}

void _start(void) {
  int foreign = 0;
  for (unsigned i = 0; i < sizeof kNumbers / sizeof kNumbers[0]; ++i) {
    foreign |= Call(kNumbers[i], 1, 0, 0) != kNoSys;
  }
  Call(1, foreign != 0, 0, 0);  // Where it works, the caller sees a plain exit.
  if (foreign != 0) *(volatile int*)0 = 0;
  __asm__ volatile("ud2");
}
