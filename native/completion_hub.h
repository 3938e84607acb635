// Brings what loops have finished to the thread of one isolate.
#pragma once

#include <napi.h>

#include <deque>
#include <memory>

#include "ort/completion_queue.h"

namespace zerohop {

// JavaScript: `new CompletionHub(wake, into)`; `wake` is called when there is something to `take`.
class CompletionHub final : public Napi::ObjectWrap<CompletionHub> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit CompletionHub(const Napi::CallbackInfo& info);
  ~CompletionHub() override;

  std::shared_ptr<ort::CompletionQueue> queue() const { return queue_; }

 private:
  // Writes plain numbers of as many completions as there are and fit into `into`, a Float64Array, and returns their count.
  Napi::Value take(const Napi::CallbackInfo& info);
  // What numbers do not say of the next completion that was taken with more to say.
  Napi::Value takeDetails(const Napi::CallbackInfo& info);

  static void close(void* self);

  std::shared_ptr<ort::CompletionQueue> queue_;
  Napi::Reference<Napi::Float64Array> into_;
  double* numbers_ = nullptr;  // its memory
  std::size_t room_ = 0;       // for so many completions
  std::vector<ort::Completion> taken_;
  std::size_t at_ = 0;  // the first of `taken_` that was not handed out
  std::deque<ort::Completion> detailed_;
  napi_threadsafe_function wake_ = nullptr;
};

}  // namespace zerohop
