#include "loop_threads.h"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include "arguments.h"
#include "ort/run_count.h"

namespace zerohop {

namespace {

std::mutex registerMutex;
std::map<std::uint64_t, std::weak_ptr<ort::RunLoop>>& loops = *new std::map<std::uint64_t, std::weak_ptr<ort::RunLoop>>;

// By loop: what the hook of the environment holds that started it.
using Held = std::shared_ptr<ort::RunLoop>;
std::map<std::uint64_t, Held*>& heldByHooks = *new std::map<std::uint64_t, Held*>;

std::shared_ptr<ort::RunLoop> find(std::uint64_t id) {
  const std::lock_guard lock(registerMutex);
  const auto found = loops.find(id);
  return found == loops.end() ? nullptr : found->second.lock();
}

// How long the end of the process is held for runs that were told to stop; one operator may take longer.
constexpr std::chrono::milliseconds kExitLimit{100};

using Clock = std::chrono::steady_clock;
std::atomic<Clock::rep> exitAt{0};  // when it is held no longer; 0 while nobody ends it

// An environment ends: its loops with it. What one runs is told to stop, and waited for, but not for one operator that takes
// long: what that uses it holds itself. One that opens a model makes what the end of the process would take down beneath it.
void endLoop(void* held) {
  const std::unique_ptr<Held> loop(static_cast<Held*>(held));
  {
    const std::lock_guard lock(registerMutex);
    heldByHooks.erase((*loop)->id);
  }
  try {
    if ((*loop)->stop()) return;
  } catch (const ort::OrtError&) {  // it comes to its end by itself
    (*loop)->end();
  }
  const auto limit = (Clock::now() + kExitLimit).time_since_epoch().count();
  // In steps: that the process ends may become known meanwhile.
  while (!(*loop)->waitUntilEnded(Clock::now() + std::chrono::milliseconds(10))) {
    const auto until = exitAt != 0 ? exitAt.load() : limit;
    if (Clock::now().time_since_epoch().count() >= until && !(*loop)->opening.underWay()) return ort::leaveWithRunning();
  }
}

std::vector<std::shared_ptr<ort::RunLoop>> allLoops() {
  const std::lock_guard lock(registerMutex);
  std::vector<std::shared_ptr<ort::RunLoop>> all;
  for (const auto& [id, known] : loops) {
    if (auto loop = known.lock()) all.push_back(std::move(loop));
  }
  return all;
}

// The process is about to end. Loops that were told to stop are waited for here, too: for those that the application's
// thread has started nobody else does, because at exit Node runs no hooks of that thread.
void noteExit(const Napi::CallbackInfo&) {
  const auto until = Clock::now() + kExitLimit;
  exitAt = until.time_since_epoch().count();
  for (const auto& loop : allLoops()) {
    if (loop->ending()) loop->waitUntilEnded(until);
  }
  ort::leaveWithRunning();
}

// (loopId, niceIncrement): starts a loop, which ends with the calling thread's environment; false when it was ended before.
Napi::Value startLoop(const Napi::CallbackInfo& info) {
  const auto loop = find(static_cast<std::uint64_t>(wholeNumber(info, 0, "loopId", 0, kMostSafeInteger)));
  const bool started = loop != nullptr && loop->start(static_cast<int>(wholeNumber(info, 1, "niceIncrement", 0, 19)));
  if (started) {
    auto* held = new Held(loop);
    const std::lock_guard lock(registerMutex);
    heldByHooks[loop->id] = held;
    napi_add_env_cleanup_hook(info.Env(), endLoop, held);
  }
  return Napi::Boolean::New(info.Env(), started);
}

}  // namespace

void registerLoop(const std::shared_ptr<ort::RunLoop>& loop) {
  const std::lock_guard lock(registerMutex);
  loops[loop->id] = loop;
}

void forgetEnd(Napi::Env env, const ort::RunLoop& loop) {
  const std::lock_guard lock(registerMutex);
  const auto found = heldByHooks.find(loop.id);
  if (found == heldByHooks.end()) return;
  napi_remove_env_cleanup_hook(env, endLoop, found->second);
  delete found->second;
  heldByHooks.erase(found);
}

void unregisterLoop(const ort::RunLoop& loop) {
  const std::lock_guard lock(registerMutex);
  loops.erase(loop.id);
}

void exportLoopThreads(Napi::Env env, Napi::Object exports) {
  exports.Set("noteExit", Napi::Function::New<noteExit>(env, "noteExit"));
  exports.Set("startLoop", Napi::Function::New<startLoop>(env, "startLoop"));
}

}  // namespace zerohop
