#include "run_loop.h"

#include <algorithm>
#include <thread>

#include "run_count.h"
#include "thread_time.h"

namespace zerohop::ort {

namespace {

// How long the thread looks for the next batch before it sleeps, where that pays: it saves the wake-up when callers take turns with it.
constexpr std::chrono::microseconds kSpin{60};
// The same after half of a batch that ran on the application's thread: before it has another, that thread gives the answers and gets
// the next requests.
constexpr std::chrono::microseconds kSpinAfterHalf{250};

// How long the application's thread spins until the other half is done. Then it sleeps: the other thread may need this core.
constexpr std::chrono::microseconds kSpinForHalf{30};
// A sleep of so long says that the other thread had no core: no batch is halved for so many times as long. Each further one doubles that, up
// to a limit; so many halved batches without one reset it.
constexpr double kLongSleepMs = 1;
constexpr double kLeastWholeTimes = 8;
constexpr double kMostWholeTimes = 512;
constexpr int kEnoughHalves = 1000;

// Spins until `found`; false when that took too long.
template <typename Found>
bool spin(std::chrono::microseconds longest, const Found& found) {
  const auto until = std::chrono::steady_clock::now() + longest;
  while (!found()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    relax();
  }
  return true;
}

std::uint64_t nextLoopId() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

Completion completion(Completion::Kind kind, std::uint64_t loopId, std::uint64_t id) {
  Completion done;
  done.kind = kind;
  done.loopId = loopId;
  done.id = id;
  return done;
}

}  // namespace

RunLoop::RunLoop(const OrtLibrary& library, std::shared_ptr<CompletionQueue> completions)
    : id(nextLoopId()),
      library_(library),
      completions_(std::move(completions)),
      runOptions_(library),
      hereOptions_(library),
      wholeTimes_(kLeastWholeTimes) {}

void RunLoop::ask(std::uint64_t questionId, std::function<void(Completion&)> work) {
  Job job;
  job.id = {false, questionId};
  job.work = std::move(work);
  add(std::move(job));
}

void RunLoop::submit(std::uint32_t slotId, std::shared_ptr<PreparedRun> run, ValueCopies apart, std::string fault,
                     bool onSecond) {
  Job job;
  job.id = {true, slotId};
  job.run = std::move(run);
  job.apart = std::move(apart);
  job.fault = std::move(fault);
  job.onSecond = onSecond;
  add(std::move(job));
}

void RunLoop::add(Job job) {
  bool sleeping;
  {
    const std::lock_guard lock(mutex_);
    if (!job.id.isBatch && ending_) return;  // who asks is told that the thread is gone
    jobs_.push_back(std::move(job));
    added_.fetch_add(1, std::memory_order_release);
    sleeping = sleeping_;
  }
  if (sleeping) wake_.notify_one();
}

bool RunLoop::takeBack(std::uint32_t slotId) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting({true, slotId});
  if (found == jobs_.end()) return false;
  jobs_.erase(found);
  return true;
}

// Under the mutex: what has not started.
std::deque<RunLoop::Job>::iterator RunLoop::waiting(JobId id) {
  return std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.id == id; });
}

bool RunLoop::cancel(JobId id) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting(id);
  if (found != jobs_.end()) {
    found->run.reset();
    found->work = nullptr;
    found->fault = "It was cancelled.";
    return true;
  }
  if (!running_ || !(*running_ == id)) return false;
  cancelled_ = true;
  opening.cancel();
  runOptions_.stop();
  return true;
}

// Under the mutex: what is not to be taken back any more can be cancelled from here on.
void RunLoop::takeFirst(Job& job) {
  job = std::move(jobs_.front());
  jobs_.pop_front();
  busy_ = true;
  running_ = job.id;
  if (!ending_) opening.reset();
}

// From here on it cannot, and what it was told does not hold for the next.
void RunLoop::finish() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  running_.reset();
  if (cancelled_ && !stopped_) {
    try {
      runOptions_.goOn();
    } catch (const OrtError&) {  // the next batch fails then
    }
  }
  cancelled_ = false;
}

bool RunLoop::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  opening.cancel();
  try {
    runOptions_.stop();  // not undone: a loop that was stopped runs nothing any more
  } catch (const OrtError&) {  // what runs comes to its end by itself
  }
  return endLocked();
}

bool RunLoop::end() {
  const std::lock_guard lock(mutex_);
  return endLocked();
}

bool RunLoop::endLocked() {
  // Until it has ended: between two things that it does the process might end, too.
  if (state_ == State::kServing && !ending_.exchange(true)) ++threadsUnderWay;
  ending_ = true;
  if (state_ == State::kNew) state_ = State::kEnded;
  wake_.notify_one();
  return state_ == State::kEnded;
}

void RunLoop::dispose() {
  std::deque<Job> jobs;  // released outside of the lock
  const std::lock_guard lock(mutex_);
  if (state_ == State::kServing) return;
  jobs.swap(jobs_);
}

bool RunLoop::waitUntilEnded(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, deadline, [this] { return state_ != State::kServing; });
}

bool RunLoop::start(int niceIncrement) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kNew) return false;
    state_ = State::kServing;
  }
  // Detached: whoever ends it waits for it as long as is right, and what it uses it holds itself.
  try {
    std::thread([self = shared_from_this(), niceIncrement] {
      addNiceness(niceIncrement);
      self->serve();
    }).detach();
  } catch (...) {  // the system has no thread left
    const std::lock_guard lock(mutex_);
    state_ = State::kEnded;
    throw;
  }
  return true;
}

// Runs halves of batches until there is a job; false when the loop is to end.
bool RunLoop::next(Job& job) {
  for (bool isAfterHalf = false;;) {
    const std::uint32_t seen = added_.load(std::memory_order_acquire);
    Half* half = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return false;
      std::swap(half, half_);
      if (half == nullptr && !jobs_.empty()) {
        takeFirst(job);
        return true;
      }
    }
    if (half != nullptr) {
      perform(*half);
      isAfterHalf = true;
      continue;
    }
    SpinHistory& spins = isAfterHalf ? halfSpins_ : spins_;
    if (spins.shouldLook()) {
      const auto isAdded = [&] { return added_.load(std::memory_order_acquire) != seen || ending_; };
      const bool found = spin(isAfterHalf ? kSpinAfterHalf : kSpin, isAdded);
      spins.looked(found);
      if (found) continue;
    }
    isAfterHalf = false;
    std::unique_lock lock(mutex_);
    sleeping_ = true;
    wake_.wait(lock, [this] { return ending_ || half_ != nullptr || !jobs_.empty(); });
    sleeping_ = false;
  }
}

void RunLoop::serve() {
  for (Job job; next(job); job = Job()) perform(job);
  sessions.clear();  // what has not been begun stays, to be taken back
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kEnded;
    --threadsUnderWay;
  }
  ended_.notify_all();
  completions_->push(completion(Completion::Kind::kEnded, id, 0));
}

void RunLoop::runHere(std::uint32_t slotId, std::shared_ptr<PreparedRun> run, bool onSecond, bool inHalves) {
  Completion done = completion(Completion::Kind::kBatchHere, id, slotId);
  const double startMs = nowMs();
  if (inHalves && run != nullptr && runInHalves(*run, onSecond)) {
    done.inferEndMs = nowMs();
  } else {
    Job job;
    job.run = std::move(run);
    job.onSecond = onSecond;
    attempt(job, hereOptions_, done);
  }
  done.startMs = done.inferStartMs = startMs;
  completions_->put(std::move(done));
}

// False when the batch is still to be run as a whole: the thread has something else to do, or a half failed or gave something
// beside the slot.
bool RunLoop::runInHalves(PreparedRun& run, bool onSecond) {
  const PreparedRun::Halves* halves = nullptr;
  if (busy_ || nowMs() < wholeUntilMs_) return false;
  try {
    halves = run.halves();
  } catch (const std::exception&) {  // the whole tells, or there is memory for it
  }
  if (halves == nullptr) return false;
  Half other{*(*halves)[1], onSecond};
  bool sleeping;
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || !jobs_.empty()) return false;
    half_ = &other;
    added_.fetch_add(1, std::memory_order_release);
    sleeping = sleeping_;
  }
  if (sleeping) wake_.notify_one();
  const HalfOutcome first = runHalf(*(*halves)[0], onSecond);
  Half* left = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::swap(left, half_);
  }
  const bool isLeft = left != nullptr;  // the thread did not come to it
  const HalfOutcome second = isLeft ? runHalf(other.rows, onSecond) : waitFor(other);
  if (first == HalfOutcome::kApart || second == HalfOutcome::kApart) run.keepWhole();
  return first == HalfOutcome::kInSlot && second == HalfOutcome::kInSlot;
}

RunLoop::HalfOutcome RunLoop::runHalf(PreparedRun& rows, bool onSecond) {
  try {
    const InsideRuntime inside;
    ValueCopies none;
    const ValueCopies apart = rows.run(hereOptions_.of(rows.session()), none, onSecond);
    return apart.empty() ? HalfOutcome::kInSlot : HalfOutcome::kApart;
  } catch (const std::exception&) {  // the whole tells why
    return HalfOutcome::kFailed;
  }
}

void RunLoop::perform(Half& half) {
  const double cpuMs = threadCpuMs();
  const HalfOutcome outcome = runHalf(half.rows, half.onSecond);
  half.cpuMs = threadCpuMs() - cpuMs;
  bool awaited;
  {
    const std::lock_guard lock(mutex_);
    half.outcome.store(outcome, std::memory_order_release);  // who sees it lets go of the half
    awaited = awaitsHalf_;
  }
  if (awaited) halfOver_.notify_one();
}

RunLoop::HalfOutcome RunLoop::waitFor(const Half& half) {
  const auto isOver = [&] { return half.outcome.load(std::memory_order_acquire) != HalfOutcome::kNone; };
  if (halvesSinceSleep_ < kEnoughHalves && ++halvesSinceSleep_ == kEnoughHalves) wholeTimes_ = kLeastWholeTimes;
  if (spin(kSpinForHalf, isOver)) return half.outcome;
  const double sinceMs = nowMs();
  {
    std::unique_lock lock(mutex_);
    awaitsHalf_ = true;
    halfOver_.wait(lock, isOver);
    awaitsHalf_ = false;
  }
  const double sleptMs = nowMs() - sinceMs;
  computedElsewhereMs() += std::min(sleptMs, half.cpuMs);
  if (sleptMs < kLongSleepMs) return half.outcome;
  wholeUntilMs_ = sinceMs + (1 + wholeTimes_) * sleptMs;
  wholeTimes_ = std::min(2 * wholeTimes_, kMostWholeTimes);
  halvesSinceSleep_ = 0;
  return half.outcome;
}

void RunLoop::attempt(Job& job, RunOptions& options, Completion& done) {
  done.startMs = done.inferStartMs = nowMs();
  try {
    const InsideRuntime inside;
    if (job.work) job.work(done);
    else if (job.run == nullptr) throw OrtError(job.fault);
    else done.outputs = job.run->run(options.of(job.run->session()), job.apart, job.onSecond);
  } catch (const std::exception& error) {
    done.failed = true;
    done.error = error.what();
  }
  done.inferEndMs = nowMs();
}

void RunLoop::perform(Job& job) {
  const auto [isBatch, number] = job.id;
  Completion done = completion(isBatch ? Completion::Kind::kBatch : Completion::Kind::kAnswer, id, number);
  attempt(job, runOptions_, done);
  finish();
  const bool silent = !isBatch && number == 0;
  {
    const InsideRuntime inside;
    job = Job();  // what it held is given back before anyone hears of its end
  }
  // What was stopped with its loop has not failed: it is lost with the worker.
  if (!silent && !(done.failed && stopped_)) completions_->push(std::move(done));
}

}  // namespace zerohop::ort
