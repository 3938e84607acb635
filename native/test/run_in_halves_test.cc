#include <random>

#include "run_loop_fixture.h"
#include "thread_time.h"

namespace zerohop::ort {
namespace {

// A slot of so many rows of four floats, and their answers.
struct Rows {
  explicit Rows(std::int64_t count) : count(count), bytes(new std::byte[count * 32], std::default_delete<std::byte[]>()) {
    x = reinterpret_cast<float*>(bytes.get());
    y = x + count * 4;
    fill(0);
  }

  void fill(float from) {
    for (std::int64_t at = 0; at < count * 4; ++at) {
      x[at] = from + static_cast<float>(at);
      y[at] = -1;
    }
  }

  std::shared_ptr<PreparedRun> prepare(const std::shared_ptr<Session>& session) const {
    const auto place = [&](std::size_t offset) { return std::vector<Place>{{Place::Kind::kInSlot, offset, {count, 4}}}; };
    return std::make_shared<PreparedRun>(session, SlotBytes{bytes, static_cast<std::size_t>(count) * 32}, place(0),
                                         place(static_cast<std::size_t>(count) * 16));
  }

  // Whether each answer is what it is of, and so much.
  bool areAnswered(float more) const {
    for (std::int64_t at = 0; at < count * 4; ++at) {
      if (y[at] != x[at] + more) return false;
    }
    return true;
  }

  const std::int64_t count;
  SharedBytes bytes;
  float* x;
  float* y;
};

class RunInHalvesTest : public RunLoopTest {
 protected:
  Completion runHere(RunLoop& loop, const std::shared_ptr<PreparedRun>& run) {
    loop.runHere(7, run, false, true);
    std::vector<Completion> done;
    completions.queue->drain(done);
    EXPECT_EQ(done.size(), 1u);
    EXPECT_EQ(done.at(0).kind, Completion::Kind::kBatchHere);
    EXPECT_EQ(done.at(0).id, 7u);
    EXPECT_LE(done.at(0).startMs, done.at(0).inferEndMs);
    return std::move(done.at(0));
  }

  // The same with a loop of its own, which has not yet waited for a half: after a long wait it would run the next batches as a whole.
  Completion runHere(const std::shared_ptr<PreparedRun>& run) {
    auto loop = serving();
    Completion done = runHere(*loop, run);
    end(loop);
    return done;
  }
};

TEST_F(RunInHalvesTest, RunsOnBothThreadsAtOnce) {
  for (const std::int64_t count : {2, 5, 64}) {
    Rows rows(count);
    const auto run = rows.prepare(open("in-pairs"));  // which ends when another run has begun
    for (int round = 1; round <= 3; ++round) {
      rows.fill(static_cast<float>(round));
      const int before = counts.runs;
      const Completion done = runHere(run);
      EXPECT_FALSE(done.failed) << done.error;
      EXPECT_TRUE(done.outputs.empty());
      EXPECT_TRUE(rows.areAnswered(1)) << count << " rows";
      EXPECT_EQ(counts.runs - before, 2);
    }
  }
}

TEST_F(RunInHalvesTest, AreBothRunHereWhereTheThreadDoesNotComeToThem) {
  auto loop = make();  // it is not started
  Rows rows(5);
  EXPECT_FALSE(runHere(*loop, rows.prepare(open("plus-one"))).failed);
  EXPECT_TRUE(rows.areAnswered(1));
  EXPECT_EQ(counts.runs, 2);
  EXPECT_TRUE(loop->end());
  rows.fill(3);
  EXPECT_FALSE(runHere(*loop, rows.prepare(open("plus-one"))).failed);
  EXPECT_TRUE(rows.areAnswered(1));
  EXPECT_EQ(counts.runs, 3) << "as a whole, as the loop has ended";
}

TEST_F(RunInHalvesTest, RunAsAWholeWhileTheThreadIsBusy) {
  auto loop = serving();
  loop->submit(1, slot.prepare(open("endless")), {});
  untilRunning();
  Rows rows(4);
  EXPECT_FALSE(runHere(*loop, rows.prepare(open("plus-one"))).failed);
  EXPECT_TRUE(rows.areAnswered(1));
  EXPECT_EQ(counts.runs, 2);
  loop->stop();
  end(loop);
}

// Then the thread's core is needed by others, and the application's thread would wait for it again and again.
TEST_F(RunInHalvesTest, AreLeftOutForLongerAndLongerAfterThoseThatCameLate) {
  auto loop = serving();
  Rows rows(4);
  const auto run = rows.prepare(open("slow-elsewhere"));
  loop->runHere(7, run, false);
  std::vector<Completion> first;
  completions.queue->drain(first);
  for (const double times : {8, 16}) {
    const double beganMs = nowMs();
    double sinceMs = 0;
    double waitedMs = 0;
    while (waitedMs < 1) {  // shorter waits, or none as the thread did not come to its half, leave out no halves
      const double waitedBeforeMs = computedElsewhereMs();
      sinceMs = nowMs();
      runHere(*loop, run);
      waitedMs = computedElsewhereMs() - waitedBeforeMs;
      ASSERT_LT(sinceMs - beganMs, 10'000) << "what others compute meanwhile counts as this thread's";
    }
    for (bool isHalved = false; !isHalved;) {
      const int before = counts.runs;
      runHere(*loop, run);
      isHalved = counts.runs - before == 2;
    }
    EXPECT_GE(nowMs() - sinceMs, (1 + times) * waitedMs);
  }
  end(loop);
}

TEST_F(RunInHalvesTest, TellsWhyItFailedInTheWordsOfTheWhole) {
  Rows rows(4);
  const auto run = rows.prepare(open("failing"));
  for (int round = 1; round <= 2; ++round) {
    const Completion done = runHere(run);
    EXPECT_TRUE(done.failed);
    EXPECT_EQ(done.error, "failed on purpose");
    EXPECT_EQ(counts.runs, 3 * round);
  }
}

// A half that is not written must not be taken for an answer.
TEST_F(RunInHalvesTest, FailTogetherWhereOneOfThemDoes) {
  Rows rows(4);
  const auto run = rows.prepare(open("no-sevens"));
  for (const int bad : {0, 7, 8, 15}) {
    rows.fill(100);
    rows.x[bad] = 7;
    const Completion done = runHere(run);
    EXPECT_TRUE(done.failed);
    EXPECT_EQ(done.error, "there is a 7");
  }
  rows.fill(100);
  EXPECT_FALSE(runHere(run).failed);
  EXPECT_TRUE(rows.areAnswered(1));
  EXPECT_EQ(counts.runs, 4 * 3 + 2) << "and it is halved again";
}

TEST_F(RunInHalvesTest, AreTriedOnceWhereAnOutputDoesNotFitItsPlace) {
  Rows rows(4);
  const auto run = rows.prepare(open("larger"));
  EXPECT_NE(run->halves(), nullptr);
  for (int round = 1; round <= 2; ++round) {
    const Completion done = runHere(run);
    EXPECT_FALSE(done.failed) << done.error;
    ASSERT_EQ(done.outputs.size(), 1u);
    EXPECT_EQ(done.outputs[0]->tensor.dims, (std::vector<std::int64_t>{5, 4}));
    EXPECT_EQ(run->halves(), nullptr);
  }
}

TEST_F(RunInHalvesTest, AreLeftOutWhereTheyCannotBeMade) {
  Rows rows(4);
  const auto run = rows.prepare(open("plus-one"));
  counts.failAt = 49;  // CreateTensorWithDataAsOrtValue
  EXPECT_FALSE(runHere(run).failed);
  counts.failAt = -1;
  EXPECT_TRUE(rows.areAnswered(1));
  EXPECT_EQ(counts.runs, 1);
  EXPECT_FALSE(runHere(run).failed);
  EXPECT_EQ(counts.runs, 3);
}

TEST_F(RunInHalvesTest, TakesAnOutputThatIsTheInputItself) {
  Rows rows(5);
  EXPECT_FALSE(runHere(rows.prepare(open("identity"))).failed);
  EXPECT_TRUE(rows.areAnswered(0));
}

TEST_F(RunInHalvesTest, AreThereOnlyForRowsThatLieInTheSlot) {
  const auto session = open("plus-one");
  const SlotBytes bytes{slot.bytes, 32};
  const auto places = [](std::vector<std::int64_t> dims, std::size_t offset = 0) {
    return std::vector<Place>{{Place::Kind::kInSlot, offset, std::move(dims)}};
  };
  const Place apart{Place::Kind::kApart, 0, {}};
  EXPECT_EQ(PreparedRun(session, bytes, places({1, 4}), places({1, 4}, 16)).halves(), nullptr) << "one row";
  EXPECT_EQ(PreparedRun(session, bytes, places({2, 2}), places({4}, 16)).halves(), nullptr) << "other first dimensions";
  EXPECT_EQ(PreparedRun(session, bytes, places({}), places({})).halves(), nullptr) << "no dimensions";
  EXPECT_EQ(PreparedRun(session, bytes, {apart}, places({2, 2})).halves(), nullptr) << "an input that comes beside the slot";
  EXPECT_EQ(PreparedRun(session, bytes, places({2, 2}), {apart}).halves(), nullptr) << "an output whose size only the run knows";
  EXPECT_NE(PreparedRun(session, bytes, places({2, 2}), {Place{}}).halves(), nullptr) << "an output that is not wanted";
}

// Batches are handed over, taken back and run in halves, of several models and by several threads, while loops come and go.
TEST_F(RunInHalvesTest, MixNothingUpWhileLoopsComeAndGo) {
  std::vector<std::thread> applications;
  std::atomic<int> wrong{0};
  for (unsigned seed = 0; seed < 3; ++seed) {
    applications.emplace_back([&, seed] {
      std::mt19937 random(seed);
      const std::string models[] = {"plus-one", "identity"};
      for (int round = 0; round < 60; ++round) {
        Completions own;
        const auto loop = std::make_shared<RunLoop>(library, own.queue);
        if (random() % 8 != 0) loop->start();
        const bool isIdentity = random() % 3 == 0;
        const auto session = open(models[isIdentity]);
        Rows rows(2 + random() % 9);
        Rows handed(3);
        const auto run = rows.prepare(session);
        bool isOut = false;
        for (int batch = 0; batch < 30; ++batch) {
          if (!isOut && random() % 3 == 0) {
            handed.fill(static_cast<float>(random() % 100));
            loop->submit(1, handed.prepare(session), {});
            isOut = true;
          }
          rows.fill(static_cast<float>(random() % 100));
          loop->runHere(2, run, false, true);
          if (!rows.areAnswered(isIdentity ? 0 : 1)) ++wrong;
          if (isOut && random() % 2 == 0 && loop->takeBack(1)) isOut = false;
          std::vector<Completion> done;
          own.queue->drain(done);
          for (const Completion& each : done) {
            if (each.failed) ++wrong;
            if (each.id != 1) continue;
            if (!handed.areAnswered(isIdentity ? 0 : 1)) ++wrong;
            isOut = false;
          }
        }
        if (random() % 2 == 0) loop->end();
        else loop->stop();
        if (!loop->waitUntilEnded(std::chrono::steady_clock::now() + 10s)) ++wrong;
        while (loop.use_count() > 1) std::this_thread::yield();
        loop->dispose();
      }
    });
  }
  for (std::thread& application : applications) application.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace zerohop::ort
