#include "ort/run_count.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace zerohop::ort {
namespace {

// What a library does whose static has been destroyed beneath a thread.
void crash() { std::abort(); }

TEST(RunCountDeathTest, AProcessEndsBeforeWhatARunHasMadeIsTakenDown) {
  const auto endMidRun = [] {
    leaveWithRunning();
    std::atexit(crash);
    const InsideRuntime inside;
    leaveWithRunning();
    std::exit(3);
  };
  EXPECT_EXIT(endMidRun(), testing::ExitedWithCode(3), "");
}

TEST(RunCountDeathTest, AProcessInWhichNothingRunsEndsInOrder) {
  const auto end = [] {
    leaveWithRunning();
    std::atexit([] { _Exit(4); });
    { const InsideRuntime inside; }
    leaveWithRunning();
    std::exit(3);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(4), "");
}

}  // namespace
}  // namespace zerohop::ort
