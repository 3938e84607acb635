// What the fake driver has counted since fakeCudaCounts was last cleared. It obeys, at every call:
// FAKE_CUDA_INIT, FAKE_CUDA_RETAIN, FAKE_CUDA_ALLOC (the result to fail with) and FAKE_CUDA_DEVICES (how many).
#pragma once

struct FakeCudaCounts {
  int inits;
  int retains;
  int allocs;
  int frees;
  int contexts;  // pushed and not yet popped, over all threads
};
