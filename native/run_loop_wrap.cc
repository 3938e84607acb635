#include "run_loop_wrap.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "arguments.h"
#include "completion_hub.h"
#include "loop_questions.h"
#include "loop_threads.h"
#include "ort/run_loop.h"
#include "run_arguments.h"
#include "staging_pool.h"
#include "tensor_wrap.h"
#include "thread_time.h"
#include "value_wrap.h"

namespace zerohop {

namespace {

using ort::PreparedRun;

// A slot's memory, which stays as long as a run may touch it.
ort::SlotBytes bytesOfLease(Napi::Env env, std::uint64_t leaseId) {
  StagingPool::Slot* slot = processPool().refer(leaseId);
  if (slot == nullptr) throw Napi::Error::New(env, "staging lease " + std::to_string(leaseId) + " is not held");
  return {{slot->data, [slot](std::byte*) { StagingPool::unrefer(slot); }}, slot->bytes};
}

// JavaScript: `new RunLoop(hub)`. Its batches lie in slots, which are known by number, as are sessions.
class RunLoopWrap final : public Napi::ObjectWrap<RunLoopWrap> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "RunLoop",
                       {
                           InstanceAccessor<&RunLoopWrap::id>("id"),
                           InstanceAccessor<&RunLoopWrap::busy>("busy"),
                           InstanceMethod<&RunLoopWrap::start>("start"),
                           InstanceMethod<&RunLoopWrap::open>("open"),
                           InstanceMethod<&RunLoopWrap::runSample>("runSample"),
                           InstanceMethod<&RunLoopWrap::close>("close"),
                           InstanceMethod<&RunLoopWrap::arena>("arena"),
                           InstanceMethod<&RunLoopWrap::enterPages>("enterPages"),
                           InstanceMethod<&RunLoopWrap::shrinkArena>("shrinkArena"),
                           InstanceMethod<&RunLoopWrap::note>("note"),
                           InstanceMethod<&RunLoopWrap::setNote>("setNote"),
                           InstanceMethod<&RunLoopWrap::defineSlot>("defineSlot"),
                           InstanceMethod<&RunLoopWrap::forgetSlot>("forgetSlot"),
                           InstanceMethod<&RunLoopWrap::defineLayout>("defineLayout"),
                           InstanceMethod<&RunLoopWrap::submit>("submit"),
                           InstanceMethod<&RunLoopWrap::runHere>("runHere"),
                           InstanceMethod<&RunLoopWrap::takeBack>("takeBack"),
                           InstanceMethod<&RunLoopWrap::cancelBatch>("cancelBatch"),
                           InstanceMethod<&RunLoopWrap::cancelQuestion>("cancelQuestion"),
                           InstanceMethod<&RunLoopWrap::end>("end"),
                           InstanceMethod<&RunLoopWrap::stop>("stop"),
                           InstanceMethod<&RunLoopWrap::dispose>("dispose"),
                       });
  }

  explicit RunLoopWrap(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    if (!info[0].IsObject()) throw Napi::TypeError::New(info.Env(), "hub: expected a CompletionHub");
    auto* hub = CompletionHub::Unwrap(info[0].As<Napi::Object>());
    loop_ = std::make_shared<ort::RunLoop>(ort::OrtLibrary::opened(), hub->queue());
  }

  ~RunLoopWrap() override { loop_->end(); }

 private:
  struct Layout {
    std::shared_ptr<PreparedRun> run;
    std::string fault;  // why there is none
  };
  struct Slot {
    std::uint32_t sessionId;
    ort::SlotBytes bytes;
    std::vector<Layout> layouts;
  };

  Napi::Value id(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), static_cast<double>(loop_->id)); }

  Napi::Value busy(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), loop_->busy()); }

  // (niceIncrement): false when it was ended before.
  Napi::Value start(const Napi::CallbackInfo& info) {
    const auto niceIncrement = static_cast<int>(wholeNumber(info, 0, "niceIncrement", 0, 19));
    return Napi::Boolean::New(info.Env(), startLoop(info.Env(), loop_, niceIncrement));
  }

  void open(const Napi::CallbackInfo& info) { askOpen(*loop_, info); }

  void runSample(const Napi::CallbackInfo& info) { askRunSample(*loop_, info); }

  // (questionId, sessionId)
  void close(const Napi::CallbackInfo& info) {
    const auto sessionId = smallNumber(info, 1, "sessionId");
    for (auto at = slots_.begin(); at != slots_.end();) at = at->second.sessionId == sessionId ? slots_.erase(at) : std::next(at);
    askClose(*loop_, info);
  }

  Napi::Value arena(const Napi::CallbackInfo& info) { return arenaOf(*loop_, info); }

  void enterPages(const Napi::CallbackInfo& info) { askEnterPages(*loop_, info); }
  void shrinkArena(const Napi::CallbackInfo& info) { askShrinkArena(*loop_, info); }

  Napi::Value note(const Napi::CallbackInfo& info) { return noteOf(*loop_, info); }

  void setNote(const Napi::CallbackInfo& info) { zerohop::setNote(*loop_, info); }

  // (slotId, sessionId, leaseId)
  void defineSlot(const Napi::CallbackInfo& info) {
    const auto leaseId = static_cast<std::uint64_t>(wholeNumber(info, 2, "leaseId", 1, kMostSafeInteger));
    slots_[smallNumber(info, 0, "slotId")] = {smallNumber(info, 1, "sessionId"), bytesOfLease(info.Env(), leaseId), {}};
  }

  // (slotId)
  void forgetSlot(const Napi::CallbackInfo& info) {
    slots_.erase(smallNumber(info, 0, "slotId"));
    // On that thread: to unmap a gigabyte takes a tenth of a second.
    loop_->ask(0, [](ort::Completion&) { processPool().trim(); });
  }

  // (slotId, layoutIndex, inputs, outputs)
  void defineLayout(const Napi::CallbackInfo& info) {
    const auto found = slots_.find(smallNumber(info, 0, "slotId"));
    if (found == slots_.end()) return;  // its batch finds the same
    Slot& slot = found->second;
    const std::size_t index = smallNumber(info, 1, "layoutIndex");
    if (slot.layouts.size() <= index) slot.layouts.resize(index + 1);
    Layout layout;
    try {
      const auto session = loop_->sessions.find(slot.sessionId);
      if (session == nullptr) throw ort::OrtError("The session was closed.");
      layout.run = std::make_shared<PreparedRun>(session, slot.bytes, placesFrom(info[2]), placesFrom(info[3]));
    } catch (const ort::OrtError& error) {
      layout.fault = error.what();
    }
    slot.layouts[index] = std::move(layout);
  }

  // (slotId, layoutIndex, onSecond, apart?)
  void submit(const Napi::CallbackInfo& info) {
    const auto slotId = info[0].As<Napi::Number>().Uint32Value();
    const auto index = info[1].As<Napi::Number>().Uint32Value();
    ort::ValueCopies apart;
    if (info[3].IsArray()) apart = valuesFrom(info[3]);
    const Layout& layout = layoutOf(slotId, index);
    loop_->submit(slotId, layout.run, std::move(apart), layout.fault, info[2].As<Napi::Boolean>().Value());
  }

  // (slotId, layoutIndex, onSecond, inHalves): runs a batch on the calling thread and hands its completion to the hub, which is not woken;
  // false when it cannot, as when the thread has gone with its sessions.
  Napi::Value runHere(const Napi::CallbackInfo& info) {
    const auto slotId = info[0].As<Napi::Number>().Uint32Value();
    const Layout& layout = layoutOf(slotId, info[1].As<Napi::Number>().Uint32Value());
    if (layout.run != nullptr) {
      loop_->runHere(slotId, layout.run, info[2].As<Napi::Boolean>().Value(), info[3].As<Napi::Boolean>().Value());
    }
    return Napi::Boolean::New(info.Env(), layout.run != nullptr);
  }

  Napi::Value takeBack(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), loop_->takeBack(smallNumber(info, 0, "slotId")));
  }

  Napi::Value cancelBatch(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), loop_->cancelBatch(smallNumber(info, 0, "slotId")));
  }

  Napi::Value cancelQuestion(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), loop_->cancelQuestion(questionId(info)));
  }

  Napi::Value end(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), loop_->end()); }

  Napi::Value stop(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), loop_->stop()); }

  // Lets go of memory and sessions; nothing is asked of it any more.
  void dispose(const Napi::CallbackInfo&) {
    forgetLoop(*loop_);
    slots_.clear();
    loop_->dispose();
  }

  const Layout& layoutOf(std::uint32_t slotId, std::size_t layoutIndex) const {
    static const Layout closed{nullptr, "The session or its slot was closed."};
    const auto found = slots_.find(slotId);
    return found == slots_.end() || layoutIndex >= found->second.layouts.size() ? closed : found->second.layouts[layoutIndex];
  }

  std::shared_ptr<ort::RunLoop> loop_;
  std::map<std::uint32_t, Slot> slots_;
};

// (path): opens the library, once for the process; returns its version. Like any C++ exception its refusal becomes one of
// JavaScript's.
Napi::Value openOnnxRuntime(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), ort::OrtLibrary::open(info[0].ToString()).version);
}

// (path): begins to open the library on another thread, once for the process. What is wrong with it is said by `openOnnxRuntime`,
// which waits for it.
void startOnnxRuntime(const Napi::CallbackInfo& info) {
  static std::once_flag once;
  static std::thread& opening = *new std::thread;  // at exit it may be there still
  std::call_once(once, [&] {
    try {
      opening = std::thread([path = info[0].ToString().Utf8Value()] {
        try {
          ort::OrtLibrary::open(path);
        } catch (const std::exception&) {
        }
      });
    } catch (const std::system_error&) {
      return;  // no thread can be had
    }
    napi_add_env_cleanup_hook(info.Env(), [](void*) { opening.join(); }, nullptr);  // a worker is not to end meanwhile
  });
}

// Milliseconds of the clock by which completions tell the time.
Napi::Value nowMs(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), ort::nowMs()); }

// Milliseconds that the calling thread has computed, halves of its batches that it waited for included.
Napi::Value cpuMs(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), threadCpuMs() + computedElsewhereMs()); }

}  // namespace

void exportRunLoops(Napi::Env env, Napi::Object exports) {
  exports.Set("CompletionHub", CompletionHub::define(env));
  exports.Set("RunLoop", RunLoopWrap::define(env));
  exports.Set("openOnnxRuntime", Napi::Function::New<openOnnxRuntime>(env, "openOnnxRuntime"));
  exports.Set("startOnnxRuntime", Napi::Function::New<startOnnxRuntime>(env, "startOnnxRuntime"));
  exports.Set("nowMs", Napi::Function::New<nowMs>(env, "nowMs"));
  exports.Set("threadCpuMs", Napi::Function::New<cpuMs>(env, "threadCpuMs"));
  exportLoopThreads(env, exports);
}

}  // namespace zerohop
