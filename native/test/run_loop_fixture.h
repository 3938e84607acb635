// What tests of loops share: loops over the stand-in for ONNX Runtime, and what becomes of them.
#pragma once

#include <chrono>
#include <thread>

#include "fake_onnxruntime_test.h"
#include "ort/run_loop.h"

namespace zerohop::ort {

using namespace std::chrono_literals;

class RunLoopTest : public FakeOrtTest {
 protected:
  std::shared_ptr<RunLoop> make() { return std::make_shared<RunLoop>(library, completions.queue); }

  std::shared_ptr<RunLoop> serving() {
    auto loop = make();
    EXPECT_TRUE(loop->start());
    return loop;
  }

  // Ends a loop and waits for it.
  void end(std::shared_ptr<RunLoop>& loop) {
    if (!loop->end()) {
      while (completions.next().kind != Completion::Kind::kEnded) {}
    }
    EXPECT_TRUE(loop->waitUntilEnded(std::chrono::steady_clock::now() + 10s));
    while (loop.use_count() > 1) std::this_thread::yield();  // the thread's own
    loop.reset();
  }

  // Waits until a run is under way.
  void untilRunning() const {
    while (counts.running == 0) std::this_thread::yield();
  }

  Completions completions;
  TestSlot slot;
};

}  // namespace zerohop::ort
