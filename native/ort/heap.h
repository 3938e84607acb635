// The memory that the C library keeps for later when it has been freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace zerohop::ort {

// Gives the system back what nobody uses. glibc keeps most of what opening a model took for a while, which is more than its
// weights: 314 MB were left of ResNet-50, and 141 MB after this. It takes some hundredths of a second then.
inline void giveBackFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// From this size on glibc takes a block from the system and gives it back when it is freed, as long as nothing larger was ever freed.
constexpr std::size_t kFromSystemBytes = 128 * 1024;

// To be called for what is allocated for each request, such as a row of an output: each page of a block from the system costs a fault,
// 340 of the 410 us in which 588 KiB are allocated and copied. Freeing one block of 32 MiB, which no byte is written to, has glibc
// keep as much as 64 MiB of what is freed later, as any program does that has ever freed one.
inline void keepFreedMemoryFor(std::size_t bytes) {
#ifdef __GLIBC__
  static std::atomic<bool> kept{false};
  if (bytes < kFromSystemBytes || kept.exchange(true, std::memory_order_relaxed)) return;
  void* volatile block = std::malloc(32 * 1024 * 1024 - kFromSystemBytes);  // volatile, or the compiler leaves both out
  std::free(block);
#endif
}

}  // namespace zerohop::ort
