// What the fake driver has counted since fakeCudaCounts was last cleared. It obeys, at every call:
// FAKE_CUDA_INIT, FAKE_CUDA_RETAIN, FAKE_CUDA_ALLOC (the result to fail with) and FAKE_CUDA_DEVICES (how many).
#pragma once

enum { FAKE_CUDA_MOST_DEVICES = 4 };

struct FakeCudaCounts {
  int inits;
  int retains;
  int allocs;
  int frees;
  int allocsOn[FAKE_CUDA_MOST_DEVICES];  // by the device whose context was current
  int contexts;  // pushed and not yet popped, over all threads
};
