// A hostile program: makes the system calls that its input names and says what each came to. One
// line is one attempt, made in a process of its own:
//
//   n 308 0 s:/tmp; 165 r b 0     in the native ABI call 308 with (0, "/tmp"), then 165 with (what
//                                 the call before returned, a buffer, 0)
//   i 20                          the same through int $0x80, the 32-bit ABI
//   x 39                          the same with the number of the x32 ABI
//
// Arguments: a number, `s:text`, `b` (4096 zero bytes), `v` (an iovec of 8 bytes), `f:N:C` (a
// seccomp program that returns N for the call C), `r` (the last result). The answer is the last
// call's result, negative for an errno, or `signal N`. No C library: what is tried is exactly what
// the table says.
#ifndef __clang__
#pragma GCC optimize("no-tree-loop-distribute-patterns")  // There is no memset to call.
#endif
enum { kWrite = 1, kRead = 0, kPipe = 22, kFork = 57, kExit = 60, kWait4 = 61 };
enum { kMaxArguments = 6, kX32Bit = 0x40000000 };

struct Program {
  unsigned short length;
  const void* instructions;
};
struct Instruction {
  unsigned short code;
  unsigned char jt, jf;
  unsigned k;
};
struct Vector {
  void* base;
  unsigned long size;
};

// Below 4 GiB (the program is linked there), so that a 32-bit call can be given them.
static char input[65536];
static char line[4096];
static char buffer[4096];
static struct Instruction filter[] = {
    {0x20, 0, 0, 0},           // The call's number;
    {0x15, 0, 1, 0},           // for the one that is meant
    {0x06, 0, 0, 0},           // what is asked for,
    {0x06, 0, 0, 0x7fff0000},  // else leave.
};
static struct Program program = {4, filter};
static struct Vector vector = {buffer, 8};

static long Native(long number, const long* a) {
  register long r10 __asm__("r10") = a[3];
  register long r8 __asm__("r8") = a[4];
  register long r9 __asm__("r9") = a[5];
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

static long Interrupt(long number, const long* a) {
  int result;
  // The sixth argument, ebp, is left alone: no attempt needs it.
  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"(number), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]), "D"(a[4])
                   : "r8", "r9", "r10", "r11", "memory");
  return result;
}

static long Call(long number, long a, long b, long c, long d) {
  const long arguments[kMaxArguments] = {a, b, c, d};
  return Native(number, arguments);
}

static void Say(const char* prefix, long value) {
  char text[64];
  char digits[24];
  unsigned length = 0, count = 0;
  while (*prefix != '\0') text[length++] = *prefix++;
  unsigned long rest = value < 0 ? -(unsigned long)value : (unsigned long)value;
  if (value < 0) text[length++] = '-';
  do {
    digits[count++] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  while (count > 0) text[length++] = digits[--count];
  text[length++] = '\n';
  Call(kWrite, 1, (long)text, length, 0);
}

static long Number(const char** at) {
  const char* p = *at;
  const int negative = *p == '-';
  if (negative) ++p;
  unsigned long value = 0;
  unsigned base = 10;
  if (p[0] == '0' && p[1] == 'x') {
    base = 16;
    p += 2;
  }
  for (;; ++p) {
    unsigned digit = 99;
    if (*p >= '0' && *p <= '9') digit = (unsigned)(*p - '0');
    if (*p >= 'a' && *p <= 'f') digit = (unsigned)(*p - 'a') + 10;
    if (digit >= base) break;
    value = value * base + digit;
  }
  *at = p;
  return negative ? -(long)value : (long)value;
}

// Takes one word. A text is ended in place, where its blank was.
static long Argument(char** at, long last) {
  char* p = *at;
  const char kind = *p;
  long value = 0;
  if (kind == 's') {
    value = (long)(p += 2);
    while (*p != '\0' && *p != ' ' && *p != ';') ++p;
    if (*p == ' ') *p++ = '\0';
    *at = p;
    return value;
  }
  if (kind == 'f') {
    const char* number = p + 2;
    filter[2].k = (unsigned)Number(&number);
    ++number;
    filter[1].k = (unsigned)Number(&number);
    *at = (char*)number;
    return (long)&program;
  }
  if (kind == 'b' || kind == 'v' || kind == 'r') {
    *at = p + 1;
    return kind == 'b' ? (long)buffer : kind == 'v' ? (long)&vector : last;
  }
  const char* number = p;
  value = Number(&number);
  *at = (char*)number;
  return value;
}

static long Attempt(char* text) {
  const char abi = *text++;
  long result = 0;
  while (*text != '\0') {
    long words[1 + kMaxArguments] = {0};
    unsigned count = 0;
    while (*text == ' ') ++text;
    while (*text != '\0' && *text != ';' && count < 1 + kMaxArguments) {
      words[count++] = Argument(&text, result);
      while (*text == ' ') ++text;
    }
    if (*text == ';') *text++ = '\0';
    if (abi == 'i') {
      result = Interrupt(words[0], words + 1);
    } else {
      result = Native(abi == 'x' ? words[0] | kX32Bit : words[0], words + 1);
    }
  }
  return result;
}

static void TryApart(char* text) {
  const long pid = Call(kFork, 0, 0, 0, 0);
  if (pid == 0) {
    Say("", Attempt(text));
    Call(kExit, 0, 0, 0, 0);
  }
  int status = 0;
  Call(kWait4, pid, (long)&status, 0, 0);
  if ((status & 0x7f) != 0) Say("signal ", status & 0x7f);
}

void Run(void) {
  long size = 0, length = 0;
  while ((size = Call(kRead, 0, (long)input, sizeof input, 0)) > 0) {
    for (long i = 0; i < size; ++i) {
      if (input[i] != '\n') {
        if (length < (long)sizeof line - 1) line[length++] = input[i];
        continue;
      }
      line[length] = '\0';
      length = 0;
      TryApart(line);
    }
  }
  Call(kExit, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n  xor %ebp, %ebp\n  and $-16, %rsp\n  call Run\n");
