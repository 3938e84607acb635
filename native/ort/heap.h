// The memory that the C library keeps for later when it has been freed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <system_error>
#include <thread>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace zerohop::ort {

constexpr std::chrono::milliseconds kBeforeGivingBack{2000};

// Gives the system back what nobody uses. glibc keeps most of what opening a model took for a while, which is more than its
// weights: 314 MB were left of ResNet-50, and 141 MB after this. It takes some hundredths of a second then.
inline void giveBackFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// The same two seconds later, on a thread of its own. A load does not wait for it, nor do its first requests; later ones that allocate
// memory meanwhile may.
inline void giveBackFreeMemoryLater() {
#ifdef __GLIBC__
  static std::atomic<bool> isToDo{false};
  if (isToDo.exchange(true)) return;
  try {
    std::thread([] {
      std::this_thread::sleep_for(kBeforeGivingBack);
      isToDo = false;
      giveBackFreeMemory();
    }).detach();
  } catch (const std::system_error&) {
    isToDo = false;  // no thread can be had: it stays with glibc
  }
#endif
}

// glibc takes a block between these sizes from the system and returns it when it is freed, until it has freed one as large.
constexpr std::size_t kLeastFromSystem = 128 * 1024;
constexpr std::size_t kMostKept = 32 * 1024 * 1024;

// Call it for memory that each request allocates, such as a row of an output. Each page from the system costs a fault: 340 of the 410 us
// that it takes to allocate and copy 588 KiB. This frees one block of almost 32 MiB that was never written to. From then on glibc reuses
// freed blocks up to that size, and keeps up to 64 MiB at the end of a heap.
inline void keepFreedMemoryFor([[maybe_unused]] std::size_t bytes) {
#ifdef __GLIBC__
  static std::atomic<bool> kept{false};
  if (bytes < kLeastFromSystem || bytes >= kMostKept || kept.exchange(true, std::memory_order_relaxed)) return;
  void* volatile block = std::malloc(kMostKept - kLeastFromSystem);  // volatile, or the compiler leaves both out
  std::free(block);
#endif
}

}  // namespace zerohop::ort
