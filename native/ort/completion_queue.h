// What loops have finished, on its way to the application's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "prepared_run.h"
#include "session.h"

namespace zerohop::ort {

// Milliseconds of the clock that all threads share.
double nowMs();

struct Completion {
  enum class Kind { kBatch, kAnswer, kEnded, kBatchHere };
  Kind kind = Kind::kBatch;
  std::uint64_t loopId = 0;
  std::uint64_t id = 0;  // the slot's, or the question's
  double startMs = 0, inferStartMs = 0, inferEndMs = 0;
  bool failed = false;
  std::string error;
  ValueCopies outputs;              // what does not lie in the slot
  std::shared_ptr<Session> session;  // that was opened
};

// Filled by loops, emptied by the application's thread, which is woken once for all that has gathered.
class CompletionQueue {
 public:
  explicit CompletionQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void push(Completion completion);
  // As push, by the application's thread itself, which need not be woken.
  void put(Completion completion);
  // All that has gathered.
  void drain(std::vector<Completion>& into);
  // Nobody is woken any more.
  void close();

 private:
  std::mutex mutex_;  // of what has gathered
  std::vector<Completion> waiting_;
  bool woken_ = false;
  std::mutex wakeMutex_;
  std::function<void()> wake_;
};

}  // namespace zerohop::ort
