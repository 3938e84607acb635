// One thread that opens models and runs batches, without any JavaScript: a worker. It is started by the thread that hands batches
// over, and ends with that thread's environment.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "completion_queue.h"
#include "open_sessions.h"
#include "prepared_run.h"
#include "run_options.h"
#include "thread_hints.h"

namespace zerohop::ort {

class RunLoop : public std::enable_shared_from_this<RunLoop> {
 public:
  RunLoop(const OrtLibrary& library, std::shared_ptr<CompletionQueue> completions);

  const std::uint64_t id;

  // ── application thread ──

  // Has `work` done on the thread, behind what it was given before; its answer is reported, an exception as an error.
  void ask(std::uint64_t questionId, std::function<void(Completion&)> work);
  // Hands a batch over; `fault` says why there is no `run`. For `onSecond` see PreparedRun::run.
  void submit(std::uint32_t slotId, std::shared_ptr<PreparedRun> run, ValueCopies apart,
              std::string fault = "", bool onSecond = false);
  // Runs a batch on the calling thread. Then its completion is in the queue; no thread is woken for it. With `inHalves`, which is
  // for rows that do not depend on each other and a session of one thread, this loop's thread runs half of them meanwhile, if it has nothing
  // else to do.
  void runHere(std::uint32_t slotId, std::shared_ptr<PreparedRun> run, bool onSecond, bool inHalves = false);
  // Takes a batch back; false when the thread has started it.
  bool takeBack(std::uint32_t slotId);
  // Stops a batch that runs, at its next operator, or has not started yet: it fails. False when it is not here.
  bool cancelBatch(std::uint32_t slotId) { return cancel({true, slotId}); }
  // The same of something that was asked: running samples, or opening a model.
  bool cancelQuestion(std::uint64_t questionId) { return cancel({false, questionId}); }
  // Stops what runs, at its next operator; nothing is begun any more. True when the thread has ended, or never began.
  bool stop();
  // Ends the loop when what runs is done; nothing is begun any more. True as for stop().
  bool end();
  // Whether it was told to.
  bool ending() const { return ending_; }
  // Lets go of what it holds, once the thread has ended.
  void dispose();
  // Blocks until the thread has ended, or it is `deadline`; false for the latter.
  bool waitUntilEnded(std::chrono::steady_clock::time_point deadline);

  // ── its own thread ──

  const OrtRunOptions* runOptions(const Session& session) { return runOptions_.of(session); }

  // ── any thread ──

  bool busy() const { return busy_; }

  // Starts the thread, which gives way to others by so much; false when the loop was ended before.
  bool start(int niceIncrement = 0);
  OpenSessions sessions;
  // What it does when it opens a model.
  Opening opening;

 private:
  // A batch by its slot, or a question by its number.
  struct JobId {
    bool isBatch = false;
    std::uint64_t number = 0;

    bool operator==(const JobId& other) const { return isBatch == other.isBatch && number == other.number; }
  };
  struct Job {
    JobId id;
    std::function<void(Completion&)> work;  // of a question
    std::shared_ptr<PreparedRun> run;       // of a batch
    std::string fault;                      // why there is none of either
    ValueCopies apart;
    bool onSecond = false;
  };
  enum class HalfOutcome { kNone, kInSlot, kApart, kFailed };
  // The half of a batch that is for the thread.
  struct Half {
    PreparedRun& rows;
    const bool onSecond;
    double cpuMs = 0;  // that it took
    std::atomic<HalfOutcome> outcome{HalfOutcome::kNone};
  };
  enum class State { kNew, kServing, kEnded };

  void add(Job job);
  bool next(Job& job);
  bool endLocked();
  void serve();
  void perform(Job& job);
  bool runInHalves(PreparedRun& run, bool onSecond);
  HalfOutcome runHalf(PreparedRun& rows, bool onSecond);
  void perform(Half& half);
  HalfOutcome waitFor(const Half& half);
  static void attempt(Job& job, RunOptions& options, Completion& done);
  void takeFirst(Job& job);
  bool cancel(JobId id);
  std::deque<Job>::iterator waiting(JobId id);
  void finish();

  const OrtLibrary& library_;
  const std::shared_ptr<CompletionQueue> completions_;
  RunOptions runOptions_;
  RunOptions hereOptions_;  // of runs on the application's thread
  SpinHistory spins_;       // of its own thread, after a batch or question
  SpinHistory halfSpins_;   // after half of a batch

  // Of the application's thread, which waits for halves.
  double wholeUntilMs_ = 0;   // until when no batch is halved
  double wholeTimes_;         // for how many times its next long sleep none will be
  int halvesSinceSleep_ = 0;  // since its last long sleep

  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::deque<Job> jobs_;
  Half* half_ = nullptr;  // not begun yet
  bool awaitsHalf_ = false;  // the application's thread sleeps until one is over
  std::condition_variable halfOver_;
  State state_ = State::kNew;
  bool sleeping_ = false;
  std::optional<JobId> running_;
  bool cancelled_ = false;     // it was told to stop
  std::atomic<std::uint32_t> added_{0};  // jobs and halves, so that the thread can look without the mutex
  std::atomic<bool> ending_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> busy_{false};
};

}  // namespace zerohop::ort
