#include "completion_hub.h"

#include <utility>

#include "tensor_wrap.h"
#include "value_wrap.h"

namespace zerohop {

namespace {

using ort::Completion;

// Of each completion: loop, kind, slot or question, times, whether there are details.
constexpr std::size_t kNumbers = 7;

void callWake(napi_env env, napi_value wake, void*, void*) {
  if (env == nullptr) return;  // the environment is going down
  napi_value undefined = nullptr;
  napi_get_undefined(env, &undefined);
  napi_call_function(env, undefined, wake, 0, nullptr, nullptr);
}

}  // namespace

Napi::Function CompletionHub::define(Napi::Env env) {
  return DefineClass(env, "CompletionHub", {InstanceMethod<&CompletionHub::take>("take"), InstanceMethod<&CompletionHub::takeDetails>("takeDetails")});
}

CompletionHub::CompletionHub(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsFunction()) throw Napi::TypeError::New(env, "wake: expected a function");
  if (!info[1].IsTypedArray() || info[1].As<Napi::TypedArray>().TypedArrayType() != napi_float64_array) {
    throw Napi::TypeError::New(env, "into: expected a Float64Array");
  }
  auto into = info[1].As<Napi::Float64Array>();
  into_ = Napi::Persistent(into);
  numbers_ = into.Data();
  room_ = into.ElementLength() / kNumbers;
  const napi_status status =
      napi_create_threadsafe_function(env, info[0], nullptr, Napi::String::New(env, "zerohop:completions"), 0, 1, nullptr,
                                      nullptr, nullptr, callWake, &wake_);
  if (status != napi_ok) throw Napi::Error::New(env);
  napi_unref_threadsafe_function(env, wake_);
  queue_ = std::make_shared<ort::CompletionQueue>(
      [wake = wake_] { napi_call_threadsafe_function(wake, nullptr, napi_tsfn_nonblocking); });
  napi_add_env_cleanup_hook(env, close, this);
}

CompletionHub::~CompletionHub() {
  if (wake_ == nullptr) return;
  napi_remove_env_cleanup_hook(Env(), close, this);
  close(this);
}

// Also a hook of the environment, run before those by which it takes the function away: in its own finalizers, later, newer
// Node holds the function's lock.
void CompletionHub::close(void* self) {
  auto* hub = static_cast<CompletionHub*>(self);
  hub->queue_->close();
  napi_release_threadsafe_function(std::exchange(hub->wake_, nullptr), napi_tsfn_release);
}

Napi::Value CompletionHub::take(const Napi::CallbackInfo& info) {
  double* numbers = numbers_;
  if (at_ == taken_.size()) {
    queue_->drain(taken_);
    at_ = 0;
  }
  std::size_t count = 0;
  for (; count < room_ && at_ < taken_.size(); ++count, ++at_) {
    Completion& each = taken_[at_];
    const bool detailed = each.failed || !each.outputs.empty() || each.session != nullptr;
    const double values[kNumbers] = {static_cast<double>(each.loopId), static_cast<double>(each.kind),
                                     static_cast<double>(each.id), each.startMs, each.inferStartMs, each.inferEndMs,
                                     detailed ? 1.0 : 0.0};
    for (const double value : values) *numbers++ = value;
    if (detailed) detailed_.push_back(std::move(each));
  }
  return Napi::Number::New(info.Env(), static_cast<double>(count));
}

Napi::Value CompletionHub::takeDetails(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (detailed_.empty()) return env.Null();
  Completion each = std::move(detailed_.front());
  detailed_.pop_front();
  Napi::Object details = Napi::Object::New(env);
  details.Set("error", each.failed ? Napi::Value(Napi::String::New(env, each.error)) : env.Null());
  if (each.session != nullptr) {
    details.Set("session", Napi::Number::New(env, static_cast<double>(each.session->id)));
    details.Set("inputs", describe(env, each.session->inputs));
    details.Set("neededInputs", Napi::Number::New(env, static_cast<double>(each.session->neededInputs)));
    details.Set("outputs", describe(env, each.session->outputs));
    return details;
  }
  Napi::Array outputs = Napi::Array::New(env, each.outputs.size());
  for (std::uint32_t index = 0; index < each.outputs.size(); ++index) {
    auto& output = each.outputs[index];
    outputs.Set(index, output ? Napi::Value(valueObject(env, *output)) : env.Null());
  }
  details.Set("outputs", outputs);
  return details;
}

}  // namespace zerohop
