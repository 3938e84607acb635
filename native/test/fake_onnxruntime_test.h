// The tests' end of the stand-in for ONNX Runtime.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dynamic_library.h"
#include "fake_onnxruntime.h"
#include "ort/run_loop.h"
#include "ort/session_table.h"

namespace zerohop::ort {

// After each test nothing is left of what ONNX Runtime has made.
class FakeOrtTest : public testing::Test {
 protected:
  FakeOrtTest() : library(OrtLibrary::open(FAKE_ORT_PATH)), counts(theirs()) {}

  void TearDown() override {
    EXPECT_EQ(counts.sessions, 0);
    EXPECT_EQ(counts.values, 0);
    EXPECT_EQ(counts.statuses, 0);
    EXPECT_EQ(counts.runOptions, 0);
    EXPECT_EQ(counts.sessionOptions, 0);
    EXPECT_EQ(counts.infos, 0);
  }

  static FakeOrtCounts& theirs() {
    std::string error;
    return *static_cast<FakeOrtCounts*>(findSymbol(openLibrary(FAKE_ORT_PATH, error), "fakeOrtCounts"));
  }

  std::shared_ptr<Session> open(const std::string& model) {
    Opening opening;
    return std::make_shared<Session>(library, ModelSource{model, nullptr, 0, 0}, std::vector<SessionSetting>{}, opening);
  }

  const OrtLibrary& library;
  FakeOrtCounts& counts;
};

// A slot of two places of four floats, as the staging pool would give it.
struct TestSlot {
  SharedBytes bytes{new std::byte[32], std::default_delete<std::byte[]>()};
  float* x = reinterpret_cast<float*>(bytes.get());
  float* y = reinterpret_cast<float*>(bytes.get() + 16);

  static std::vector<Place> place(std::size_t offset) { return {Place{Place::Kind::kInSlot, offset, {1, 4}}}; }

  std::shared_ptr<PreparedRun> prepare(const std::shared_ptr<Session>& session) const {
    return std::make_shared<PreparedRun>(session, SlotBytes{bytes, 32}, place(0), place(16));
  }
};

// Gathers what loops have done.
class Completions {
 public:
  std::shared_ptr<CompletionQueue> queue = std::make_shared<CompletionQueue>([this] { wake(); });

  // The next that there is; waits for it.
  Completion next() {
    std::unique_lock lock(mutex_);
    while (given_ == all_.size()) {
      woken_.wait(lock, [this] { return wakes_ > 0; });
      wakes_ = 0;
      lock.unlock();
      std::vector<Completion> drained;
      queue->drain(drained);
      lock.lock();
      for (Completion& each : drained) all_.push_back(std::move(each));
    }
    return std::move(all_[given_++]);
  }

 private:
  void wake() {
    const std::lock_guard lock(mutex_);
    ++wakes_;
    woken_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
  std::vector<Completion> all_;
  std::size_t given_ = 0;
};

}  // namespace zerohop::ort
