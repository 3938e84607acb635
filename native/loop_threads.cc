#include "loop_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include "ort/run_count.h"

namespace zerohop {

namespace {

using Loops = std::vector<std::shared_ptr<ort::RunLoop>>;

std::mutex startedMutex;
// By the environment that started them, which has a hook while it is here. Never destroyed: threads outlive static variables.
std::map<napi_env, Loops>& started = *new std::map<napi_env, Loops>;

// How long the end of the process is held for runs that were told to stop; one operator may take longer.
constexpr std::chrono::milliseconds kExitLimit{100};
// The same for a thread that opens a model: it makes what the end of the process would take down beneath it. A driver may hang over it.
constexpr std::chrono::seconds kOpeningLimit{60};
// That the process ends may become known while a loop is waited for.
constexpr std::chrono::milliseconds kStep{10};

using Clock = std::chrono::steady_clock;
std::atomic<Clock::rep> exitAt{0};  // when it is held no longer; 0 while nobody ends it

// Waits for a loop that was told to stop, but not for one operator that takes long: what that uses it holds itself.
bool waitForEnd(ort::RunLoop& loop, Clock::time_point limit) {
  for (;;) {
    const auto now = Clock::now();
    const auto until = exitAt == 0 ? limit : Clock::time_point(Clock::duration(exitAt.load()));
    const bool isLast = now >= until + (loop.opening.underWay() ? kOpeningLimit : std::chrono::seconds(0));
    if (loop.waitUntilEnded(isLast ? now : now + kStep)) return true;
    if (isLast) return false;
  }
}

// An environment ends, and its loops with it.
void endLoops(void* env) {
  Loops loops;
  {
    const std::lock_guard lock(startedMutex);
    const auto found = started.find(static_cast<napi_env>(env));
    loops = std::move(found->second);
    started.erase(found);
  }
  for (const auto& loop : loops) loop->stop();
  const auto limit = Clock::now() + kExitLimit;
  bool haveEnded = true;
  for (const auto& loop : loops) haveEnded = waitForEnd(*loop, limit) && haveEnded;
  if (!haveEnded) ort::leaveWithRunning();
}

// The process is about to end. Loops that were told to stop are waited for here, too: for those that the application's
// thread has started nobody else does, because at exit Node runs no hooks of that thread.
void noteExit(const Napi::CallbackInfo&) {
  const auto limit = Clock::now() + kExitLimit;
  exitAt = limit.time_since_epoch().count();
  Loops all;
  {
    const std::lock_guard lock(startedMutex);
    for (const auto& [env, loops] : started) all.insert(all.end(), loops.begin(), loops.end());
  }
  for (const auto& loop : all) {
    if (loop->ending()) waitForEnd(*loop, limit);
  }
  ort::leaveWithRunning();
}

}  // namespace

bool startLoop(Napi::Env env, const std::shared_ptr<ort::RunLoop>& loop, int niceIncrement) {
  const std::lock_guard lock(startedMutex);
  const auto [found, isFirst] = started.try_emplace(env);
  if (isFirst) napi_add_env_cleanup_hook(env, endLoops, static_cast<napi_env>(env));
  Loops& loops = found->second;
  loops.reserve(loops.size() + 1);  // nothing may fail once it has started
  if (!loop->start(niceIncrement)) return false;
  loops.push_back(loop);
  return true;
}

void forgetLoop(const ort::RunLoop& loop) {
  const std::lock_guard lock(startedMutex);
  for (auto& [env, loops] : started) {
    loops.erase(std::remove_if(loops.begin(), loops.end(), [&](const auto& other) { return other.get() == &loop; }), loops.end());
  }
}

void exportLoopThreads(Napi::Env env, Napi::Object exports) {
  exports.Set("noteExit", Napi::Function::New<noteExit>(env, "noteExit"));
}

}  // namespace zerohop
