#include "completion_queue.h"

#include <chrono>

namespace zerohop::ort {

double nowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void CompletionQueue::push(Completion completion) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(completion));
    if (woken_) return;
    woken_ = true;
  }
  // Not under the lock of the queue: whoever is woken would only wait for that.
  const std::lock_guard lock(wakeMutex_);
  if (wake_ != nullptr) wake_();
}

void CompletionQueue::put(Completion completion) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(completion));
}

void CompletionQueue::drain(std::vector<Completion>& into) {
  into.clear();
  const std::lock_guard lock(mutex_);
  woken_ = false;
  into.swap(waiting_);
}

void CompletionQueue::close() {
  const std::lock_guard lock(wakeMutex_);
  wake_ = nullptr;
}

}  // namespace zerohop::ort
