// The launch program: sandboxd-launcher LINK SCRATCH. The daemon starts it from a sealed memory
// file, once; everything between a create and a running program is a fork of it.
#include <stdio.h>
#include <stdlib.h>

#include "runtime/shim/zygote.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "sandboxd-launcher is started by sandboxd, not by hand\n");
    return 2;
  }
  return sandboxd::shim::RunZygote(atoi(argv[1]), argv[2]);
}
