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

// glibc takes blocks between these sizes from the system, and gives them back when they are freed, as long as nothing as large was freed.
constexpr std::size_t kLeastFromSystem = 128 * 1024;
constexpr std::size_t kMostKept = 32 * 1024 * 1024;

// To be called for what is allocated for each request, such as a row of an output: each page from the system costs a fault, 340 of the
// 410 us in which 588 KiB are allocated and copied. Once a block of almost 32 MiB was freed, which no byte was written to, glibc keeps
// blocks up to that size, and up to 64 MiB that are free at the end of a heap, as in any program that has ever freed one.
inline void keepFreedMemoryFor([[maybe_unused]] std::size_t bytes) {
#ifdef __GLIBC__
  static std::atomic<bool> kept{false};
  if (bytes < kLeastFromSystem || bytes >= kMostKept || kept.exchange(true, std::memory_order_relaxed)) return;
  void* volatile block = std::malloc(kMostKept - kLeastFromSystem);  // volatile, or the compiler leaves both out
  std::free(block);
#endif
}

}  // namespace zerohop::ort
