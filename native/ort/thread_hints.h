// How a thread waits, and what it tells the processor and the system about its own importance.
#pragma once

#include <algorithm>

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace zerohop::ort {

// It waits for a word in memory.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
  asm volatile("yield");
#endif
}

// Whether to spin before the next sleep. A spin that finds no work leaves out the next one; a second in a row leaves out three, then 7,
// and so on up to 63. One that finds work resets this.
class SpinHistory {
 public:
  bool shouldLook() {
    if (skipped_ == skips_) return true;
    ++skipped_;
    return false;
  }
  void looked(bool found) {
    skips_ = found ? 0 : std::min(2 * skips_ + 1, 63);
    skipped_ = 0;
  }

 private:
  int skips_ = 0;
  int skipped_ = 0;
};

// The calling thread, and those that it starts, give way to others: on Linux a thread has a niceness of its own, where others
// know only that of the process. That it cannot be had does no harm.
inline void addNiceness(int increment) {
#ifdef __linux__
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  if (increment > 0) setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + increment);
#else
  static_cast<void>(increment);
#endif
}

}  // namespace zerohop::ort
