#include "run_loop_wrap.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "arguments.h"
#include "completion_hub.h"
#include "ort/run_loop.h"
#include "ort/session_table.h"
#include "staging_pool.h"
#include "tensor_wrap.h"

namespace zerohop {

namespace {

using ort::Completion;
using ort::ModelSource;
using ort::Place;
using ort::PreparedRun;
using ort::SessionSetting;

// What ONNX Runtime refuses is an exception of JavaScript's.
template <typename Work>
auto orThrow(Napi::Env env, Work work) {
  try {
    return work();
  } catch (const ort::OrtError& error) {
    throw Napi::Error::New(env, error.what());
  }
}

// The loops that are alive, by number: a worker's thread starts one that the application's thread has made.
class LoopRegister {
 public:
  void add(const std::shared_ptr<ort::RunLoop>& loop) {
    const std::lock_guard lock(mutex_);
    loops_[loop->id] = loop;
  }
  void remove(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    loops_.erase(id);
  }
  std::shared_ptr<ort::RunLoop> find(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = loops_.find(id);
    return found == loops_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<ort::RunLoop>> loops_;
};

LoopRegister& processLoops() {
  static LoopRegister& loops = *new LoopRegister;
  return loops;
}

// A slot's memory, which stays as long as a run may touch it.
ort::SlotBytes bytesOfLease(Napi::Env env, std::uint64_t leaseId) {
  StagingPool::Slot* slot = processPool().refer(leaseId);
  if (slot == nullptr) throw Napi::Error::New(env, "staging lease " + std::to_string(leaseId) + " is not held");
  return {{slot->data, [slot](std::byte*) { StagingPool::unrefer(slot); }}, slot->bytes};
}

std::vector<SessionSetting> settingsFrom(const Napi::Value& value) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "settings: expected an array");
  const Napi::Array list = value.As<Napi::Array>();
  std::vector<SessionSetting> settings(list.Length());
  for (std::uint32_t index = 0; index < settings.size(); ++index) {
    const Napi::Object each = list.Get(index).ToObject();
    const auto text = [&](const char* name) -> std::string {
      const Napi::Value given = each.Get(name);
      return given.IsUndefined() ? std::string() : given.ToString().Utf8Value();
    };
    settings[index] = {text("name"), text("key"), text("value"), {}};
    if (!each.Get("entries").IsObject()) continue;
    const Napi::Object entries = each.Get("entries").As<Napi::Object>();
    const Napi::Array keys = entries.GetPropertyNames();
    for (std::uint32_t at = 0; at < keys.Length(); ++at) {
      settings[index].entries.emplace_back(keys.Get(at).ToString(), entries.Get(keys.Get(at)).ToString());
    }
  }
  return settings;
}

std::vector<Place> placesFrom(const Napi::Value& value) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "places: expected an array");
  const Napi::Array list = value.As<Napi::Array>();
  std::vector<Place> places(list.Length());
  for (std::uint32_t index = 0; index < places.size(); ++index) {
    const Napi::Value each = list.Get(index);
    if (each.IsNull()) places[index].kind = Place::Kind::kApart;
    if (!each.IsObject()) continue;
    const Napi::Object place = each.As<Napi::Object>();
    places[index] = {Place::Kind::kInSlot, static_cast<std::size_t>(place.Get("offset").ToNumber().Int64Value()),
                     dimsFrom(place.Get("dims"))};
  }
  return places;
}

std::uint32_t smallNumber(const Napi::CallbackInfo& info, std::size_t index, const char* name) {
  return static_cast<std::uint32_t>(wholeNumber(info, index, name, 0, UINT32_MAX));
}

// JavaScript: `new RunLoop(hub)`. Its batches lie in slots, which are known by number, as are sessions.
class RunLoopWrap final : public Napi::ObjectWrap<RunLoopWrap> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "RunLoop",
                       {
                           InstanceAccessor<&RunLoopWrap::id>("id"),
                           InstanceAccessor<&RunLoopWrap::busy>("busy"),
                           InstanceMethod<&RunLoopWrap::open>("open"),
                           InstanceMethod<&RunLoopWrap::runSample>("runSample"),
                           InstanceMethod<&RunLoopWrap::close>("close"),
                           InstanceMethod<&RunLoopWrap::defineSlot>("defineSlot"),
                           InstanceMethod<&RunLoopWrap::forgetSlot>("forgetSlot"),
                           InstanceMethod<&RunLoopWrap::defineLayout>("defineLayout"),
                           InstanceMethod<&RunLoopWrap::submit>("submit"),
                           InstanceMethod<&RunLoopWrap::runHere>("runHere"),
                           InstanceMethod<&RunLoopWrap::takeBack>("takeBack"),
                           InstanceMethod<&RunLoopWrap::cancel>("cancel"),
                           InstanceMethod<&RunLoopWrap::end>("end"),
                           InstanceMethod<&RunLoopWrap::stop>("stop"),
                           InstanceMethod<&RunLoopWrap::dispose>("dispose"),
                       });
  }

  explicit RunLoopWrap(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    if (!info[0].IsObject()) throw Napi::TypeError::New(info.Env(), "hub: expected a CompletionHub");
    auto* hub = CompletionHub::Unwrap(info[0].As<Napi::Object>());
    loop_ = orThrow(info.Env(), [&] { return std::make_shared<ort::RunLoop>(ort::OrtLibrary::opened(), hub->queue()); });
    processLoops().add(loop_);
  }

  ~RunLoopWrap() override {
    loop_->end();
    processLoops().remove(loop_->id);
  }

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

  // (questionId, sessionId, path or bytes, bytesId, settings, shared)
  void open(const Napi::CallbackInfo& info) {
    const auto sessionId = smallNumber(info, 1, "sessionId");
    ModelSource source;
    std::shared_ptr<char[]> bytes;
    if (info[2].IsTypedArray()) {
      Napi::Uint8Array view = info[2].As<Napi::Uint8Array>();
      source.byteLength = view.ByteLength();
      source.bytesId = static_cast<std::uint64_t>(wholeNumber(info, 3, "bytesId", 0, kMostSafeInteger));
      // The view's own bytes may go with the isolate while the thread still reads them.
      bytes.reset(new char[source.byteLength]);
      std::memcpy(bytes.get(), view.Data(), source.byteLength);
      source.bytes = bytes.get();
    } else {
      source.path = info[2].ToString();
    }
    const bool shared = info[5].ToBoolean();
    loop_->ask(question(info), [loop = loop_.get(), sessionId, source, bytes, settings = settingsFrom(info[4]), shared](Completion& done) {
      done.session = ort::processSessions().open(ort::OrtLibrary::opened(), source, settings, shared);
      loop->setSession(sessionId, done.session);
    });
  }

  // (questionId, sessionId, feeds, outputs): `feeds` by input of the session, `outputs` the indices of those that are wanted.
  void runSample(const Napi::CallbackInfo& info) {
    const auto sessionId = smallNumber(info, 1, "sessionId");
    auto feeds = std::make_shared<std::vector<std::optional<ort::TensorCopy>>>(tensorsFrom(info[2]));
    const auto wanted = dimsFrom(info[3]);
    const bool keeps = info[4].ToBoolean();
    loop_->ask(question(info), [loop = loop_.get(), sessionId, feeds, wanted, keeps](Completion& done) {
      const auto session = loop->session(sessionId);
      if (session == nullptr) throw ort::OrtError("The session was closed.");
      std::vector<Place> inputs(feeds->size()), outputs(session->outputs.size());
      for (std::size_t index = 0; index < inputs.size(); ++index) {
        if ((*feeds)[index]) inputs[index].kind = Place::Kind::kApart;
      }
      for (const std::int64_t index : wanted) outputs.at(static_cast<std::size_t>(index)).kind = Place::Kind::kApart;
      PreparedRun run(session, {}, inputs, outputs);
      done.startMs = ort::nowMs();
      done.outputs = run.run(loop->runOptions(), *feeds);
      if (!keeps) done.outputs.clear();
    });
  }

  // (questionId, sessionId)
  void close(const Napi::CallbackInfo& info) {
    const auto sessionId = smallNumber(info, 1, "sessionId");
    for (auto at = slots_.begin(); at != slots_.end();) at = at->second.sessionId == sessionId ? slots_.erase(at) : std::next(at);
    loop_->ask(question(info), [loop = loop_.get(), sessionId](Completion&) {
      loop->dropSession(sessionId);
      processPool().trim();
    });
  }

  // (slotId, sessionId, leaseId)
  void defineSlot(const Napi::CallbackInfo& info) {
    const auto leaseId = static_cast<std::uint64_t>(wholeNumber(info, 2, "leaseId", 1, kMostSafeInteger));
    slots_[smallNumber(info, 0, "slotId")] = {smallNumber(info, 1, "sessionId"), bytesOfLease(info.Env(), leaseId), {}};
  }

  // (slotId)
  void forgetSlot(const Napi::CallbackInfo& info) {
    slots_.erase(smallNumber(info, 0, "slotId"));
    // On that thread: to unmap a gigabyte takes a tenth of a second.
    loop_->ask(0, [](Completion&) { processPool().trim(); });
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
      const auto session = loop_->session(slot.sessionId);
      if (session == nullptr) throw ort::OrtError("The session was closed.");
      layout.run = std::make_shared<PreparedRun>(session, slot.bytes, placesFrom(info[2]), placesFrom(info[3]));
    } catch (const ort::OrtError& error) {
      layout.fault = error.what();
    }
    slot.layouts[index] = std::move(layout);
  }

  // (slotId, layoutIndex, apart?)
  void submit(const Napi::CallbackInfo& info) {
    const auto slotId = info[0].As<Napi::Number>().Uint32Value();
    const auto index = info[1].As<Napi::Number>().Uint32Value();
    std::vector<std::optional<ort::TensorCopy>> apart;
    if (info[2].IsArray()) apart = tensorsFrom(info[2]);
    const Layout& layout = layoutOf(slotId, index);
    loop_->submit(slotId, layout.run, std::move(apart), layout.fault);
  }

  // (slotId, layoutIndex): runs a batch on the calling thread and hands its completion to the hub, which is not woken; false
  // when it cannot, as when the thread has gone with its sessions.
  Napi::Value runHere(const Napi::CallbackInfo& info) {
    const auto slotId = info[0].As<Napi::Number>().Uint32Value();
    const Layout& layout = layoutOf(slotId, info[1].As<Napi::Number>().Uint32Value());
    if (layout.run != nullptr) loop_->runHere(slotId, layout.run);
    return Napi::Boolean::New(info.Env(), layout.run != nullptr);
  }

  Napi::Value takeBack(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), loop_->takeBack(smallNumber(info, 0, "slotId")));
  }

  Napi::Value cancel(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), orThrow(info.Env(), [&] { return loop_->cancel(smallNumber(info, 0, "slotId")); }));
  }

  Napi::Value end(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), loop_->end()); }

  Napi::Value stop(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), loop_->stop()); }

  // Lets go of memory and sessions; nothing is asked of it any more.
  void dispose(const Napi::CallbackInfo&) {
    slots_.clear();
    loop_->dispose();
  }

  const Layout& layoutOf(std::uint32_t slotId, std::size_t layoutIndex) const {
    static const Layout closed{nullptr, "The session or its slot was closed."};
    const auto found = slots_.find(slotId);
    return found == slots_.end() || layoutIndex >= found->second.layouts.size() ? closed : found->second.layouts[layoutIndex];
  }

  static std::uint64_t question(const Napi::CallbackInfo& info) {
    return static_cast<std::uint64_t>(wholeNumber(info, 0, "questionId", 0, kMostSafeInteger));
  }

  std::shared_ptr<ort::RunLoop> loop_;
  std::map<std::uint32_t, Slot> slots_;
};

// (path): opens the library, once for the process; returns its version.
Napi::Value openOnnxRuntime(const Napi::CallbackInfo& info) {
  return orThrow(info.Env(), [&] { return Napi::String::New(info.Env(), ort::OrtLibrary::open(info[0].ToString()).version); });
}

// Milliseconds of the clock by which completions tell the time.
Napi::Value nowMs(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), ort::nowMs()); }

// How long the end of the process is held for runs that were told to stop; one operator may take longer.
constexpr std::chrono::milliseconds kExitLimit{150};

using Clock = std::chrono::steady_clock;
std::atomic<Clock::rep> exitAt{0};  // when it is held no longer; 0 while nobody ends it

// A worker's thread ends: its loop with it. What it runs is told to stop, and waited for: nobody else may have the memory
// yet. At the end of the process nobody will.
void endLoop(void* held) {
  const std::unique_ptr<std::shared_ptr<ort::RunLoop>> loop(static_cast<std::shared_ptr<ort::RunLoop>*>(held));
  try {
    if ((*loop)->stop()) return;
  } catch (const ort::OrtError&) {  // it comes to its end by itself
    (*loop)->end();
  }
  // In steps: that the process ends may become known meanwhile.
  while (!(*loop)->waitUntilEnded(Clock::now() + std::chrono::milliseconds(10))) {
    // One that opens a model makes what the end of the process would take down beneath it: that is waited for.
    if (exitAt != 0 && Clock::now().time_since_epoch().count() >= exitAt && (*loop)->runsBatch()) return;
  }
}

// The process is about to end.
void noteExit(const Napi::CallbackInfo&) { exitAt = (Clock::now() + kExitLimit).time_since_epoch().count(); }

// (loopId): starts a loop, which ends with the calling thread's environment; false when it was ended before.
Napi::Value startLoop(const Napi::CallbackInfo& info) {
  const auto loop = processLoops().find(static_cast<std::uint64_t>(wholeNumber(info, 0, "loopId", 0, kMostSafeInteger)));
  const bool started = loop != nullptr && loop->start();
  if (started) napi_add_env_cleanup_hook(info.Env(), endLoop, new std::shared_ptr<ort::RunLoop>(loop));
  return Napi::Boolean::New(info.Env(), started);
}

}  // namespace

void exportRunLoops(Napi::Env env, Napi::Object exports) {
  exports.Set("CompletionHub", CompletionHub::define(env));
  exports.Set("RunLoop", RunLoopWrap::define(env));
  exports.Set("openOnnxRuntime", Napi::Function::New<openOnnxRuntime>(env, "openOnnxRuntime"));
  exports.Set("nowMs", Napi::Function::New<nowMs>(env, "nowMs"));
  exports.Set("noteExit", Napi::Function::New<noteExit>(env, "noteExit"));
  exports.Set("startLoop", Napi::Function::New<startLoop>(env, "startLoop"));
}

}  // namespace zerohop
