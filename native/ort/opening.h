// The opening of a model, which another thread can end.
#pragma once

#include <mutex>

#include "ort_library.h"

namespace zerohop::ort {

class Opening {
 public:
  // Held while the library opens a model with `options`; throws OrtError when it was cancelled before.
  class Scope {
   public:
    Scope(Opening& opening, const OrtLibrary& library, OrtSessionOptions* options) : opening_(opening) {
      const std::lock_guard lock(opening_.mutex_);
      if (opening_.cancelled_) throw OrtError(kCancelled);
      opening_.library_ = &library;
      opening_.options_ = options;
    }
    ~Scope() {
      const std::lock_guard lock(opening_.mutex_);
      opening_.options_ = nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Opening& opening_;
  };

  static constexpr const char* kCancelled = "The opening was cancelled.";

  // The library looks at the flag between its steps, and fails then.
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (options_ == nullptr) return;
    OrtStatus* status = library_->api.SessionOptionsSetLoadCancellationFlag(options_, true);
    if (status != nullptr) library_->api.ReleaseStatus(status);  // it comes to its end then
  }

  bool cancelled() {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  // Whether the library is at it.
  bool underWay() {
    const std::lock_guard lock(mutex_);
    return options_ != nullptr;
  }

  // Makes ready for the next.
  void reset() {
    const std::lock_guard lock(mutex_);
    cancelled_ = false;
  }

 private:
  std::mutex mutex_;  // of what follows
  bool cancelled_ = false;
  const OrtLibrary* library_ = nullptr;
  OrtSessionOptions* options_ = nullptr;  // while the library opens
};

}  // namespace zerohop::ort
