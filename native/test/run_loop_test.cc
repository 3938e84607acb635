#include "ort/run_loop.h"

#include <random>
#include <thread>

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

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

TEST_F(RunLoopTest, RunsWhatIsHandedOverAndReportsIt) {
  auto loop = serving();
  slot.x[0] = 5;
  loop->submit(3, slot.prepare(open("plus-one")), {});
  const Completion done = completions.next();
  EXPECT_EQ(done.kind, Completion::Kind::kBatch);
  EXPECT_EQ(done.loopId, loop->id);
  EXPECT_EQ(done.id, 3u);
  EXPECT_FALSE(done.failed);
  EXPECT_LE(done.startMs, done.inferEndMs);
  EXPECT_EQ(slot.y[0], 6);
  end(loop);
}

TEST_F(RunLoopTest, AnswersQuestionsInTheirOrder) {
  auto loop = serving();
  for (std::uint64_t question = 1; question <= 100; ++question) loop->ask(question, [](Completion&) {});
  for (std::uint64_t question = 1; question <= 100; ++question) EXPECT_EQ(completions.next().id, question);
  end(loop);
}

TEST_F(RunLoopTest, ReportsAnExceptionAsAnError) {
  auto loop = serving();
  loop->ask(1, [](Completion&) { throw OrtError("refused"); });
  const Completion done = completions.next();
  EXPECT_TRUE(done.failed);
  EXPECT_EQ(done.error, "refused");
  loop->submit(1, nullptr, {}, "there is no slot");
  EXPECT_EQ(completions.next().error, "there is no slot");
  end(loop);
}

TEST_F(RunLoopTest, GivesBackWhatHasNotStartedAlsoWhenItHasEnded) {
  auto loop = make();
  const auto run = slot.prepare(open("plus-one"));
  loop->submit(1, run, {});
  loop->submit(2, run, {});
  EXPECT_TRUE(loop->takeBack(1));
  EXPECT_FALSE(loop->takeBack(1));
  EXPECT_TRUE(loop->end());
  EXPECT_FALSE(loop->start()) << "one that was ended is not started";
  EXPECT_TRUE(loop->takeBack(2));
  EXPECT_EQ(counts.runs, 0);
}

TEST_F(RunLoopTest, DoesNotGiveBackWhatRuns) {
  auto loop = serving();
  loop->submit(1, slot.prepare(open("endless")), {});
  loop->submit(2, slot.prepare(open("plus-one")), {});
  untilRunning();
  EXPECT_TRUE(loop->busy());
  EXPECT_FALSE(loop->takeBack(1));
  EXPECT_TRUE(loop->takeBack(2));
  EXPECT_FALSE(loop->stop());
  end(loop);
}

TEST_F(RunLoopTest, StopsWhatRunsAndReportsNothingOfIt) {
  auto loop = serving();
  loop->submit(1, slot.prepare(open("endless")), {});
  untilRunning();
  EXPECT_FALSE(loop->waitUntilEnded(std::chrono::steady_clock::now() + 1ms));
  loop->stop();
  EXPECT_EQ(completions.next().kind, Completion::Kind::kEnded);
  end(loop);
}

TEST_F(RunLoopTest, CancelsTheBatchThatRunsAndNoOther) {
  auto loop = serving();
  slot.x[0] = 5;
  EXPECT_FALSE(loop->cancel(1));
  loop->submit(1, slot.prepare(open("endless")), {});
  loop->submit(2, slot.prepare(open("plus-one")), {});
  untilRunning();
  loop->submit(3, slot.prepare(open("plus-one")), {});
  EXPECT_FALSE(loop->cancel(4));
  EXPECT_TRUE(loop->cancel(2)) << "one that has not started fails, too";
  EXPECT_TRUE(loop->cancel(1));
  for (const std::uint64_t id : {1, 2}) {
    const Completion cancelled = completions.next();
    EXPECT_EQ(cancelled.id, id);
    EXPECT_TRUE(cancelled.failed);
  }
  const Completion next = completions.next();
  EXPECT_EQ(next.id, 3u);
  EXPECT_EQ(counts.runs, 2);
  EXPECT_FALSE(next.failed);
  EXPECT_EQ(slot.y[0], 6);
  end(loop);
}

TEST_F(RunLoopTest, FinishesWhatRunsWhenItIsToEnd) {
  auto loop = serving();
  loop->submit(1, slot.prepare(open("plus-one")), {});
  EXPECT_EQ(completions.next().kind, Completion::Kind::kBatch);
  EXPECT_FALSE(loop->end());
  EXPECT_EQ(completions.next().kind, Completion::Kind::kEnded);
  end(loop);
}

TEST_F(RunLoopTest, LetsGoOfItsSessions) {
  auto loop = serving();
  loop->setSession(1, open("plus-one"));
  loop->setSession(2, open("plus-one"));
  EXPECT_NE(loop->session(1), nullptr);
  loop->dropSession(1);
  EXPECT_EQ(loop->session(1), nullptr);
  EXPECT_EQ(counts.sessions, 1);
  end(loop);
}

TEST_F(RunLoopTest, SaysNothingToAQueueThatIsClosed) {
  auto loop = serving();
  completions.queue->close();
  loop->ask(1, [](Completion&) {});
  loop->end();
  EXPECT_TRUE(loop->waitUntilEnded(std::chrono::steady_clock::now() + 10s));
  while (loop.use_count() > 1) std::this_thread::yield();
}

// Whatever fails, every question and batch is answered, and nothing is left.
TEST_F(RunLoopTest, AnswersWhicheverEntryFails) {
  std::vector<int> places;
#define ZEROHOP_PLACE(place, ...) places.push_back(place);
  ZEROHOP_ORT_ENTRIES(ZEROHOP_PLACE)
#undef ZEROHOP_PLACE
  const std::string model = "identity";  // whose outputs are read out
  for (const int place : places) {
    // CreateRunOptions: there is no loop then. AllocatorFree: what it does not free is left.
    if (place == 39 || place == 76) continue;
    counts.failAt = -1;
    auto loop = serving();
    counts.failAt = place;
    loop->ask(1, [&](Completion& done) {
      done.session = std::make_shared<Session>(library, ModelSource{"", model.data(), model.size(), 1},
                                               std::vector<SessionSetting>{{"intraOpNumThreads", "", "1", {}}});
    });
    Completion opened = completions.next();
    if (!opened.failed) {
      std::shared_ptr<PreparedRun> run;
      try {
        run = slot.prepare(opened.session);
      } catch (const OrtError&) {
      }
      loop->submit(1, std::move(run), {});
      EXPECT_EQ(completions.next().kind, Completion::Kind::kBatch) << "entry " << place;
    }
    counts.failAt = -1;
    opened = Completion();
    end(loop);
  }
}

// Several application threads, each with its loops, share sessions; loops die at any moment.
TEST_F(RunLoopTest, LosesNothingWhileLoopsComeAndGo) {
  SessionTable table;
  const std::string names[] = {"plus-one", "identity", "larger", "failing"};
  std::vector<std::thread> applications;
  std::atomic<int> handed{0}, answered{0}, lost{0}, wrong{0};
  constexpr int kBatches = 400;
  for (unsigned seed = 0; seed < 4; ++seed) {
    applications.emplace_back([&, seed] {
      std::mt19937 random(seed);
      Completions own;
      int handedOver = 0;
      while (handedOver < kBatches) {
        const auto loop = std::make_shared<RunLoop>(library, own.queue);
        loop->start();
        const std::string& model = names[random() % 4];
        const auto session = table.open(library, ModelSource{"", model.data(), model.size(), random() % 2}, {{"config", model, "", {}}}, true);
        TestSlot slots[2];
        const std::shared_ptr<PreparedRun> runs[2] = {slots[0].prepare(session), slots[1].prepare(session)};
        bool out[2] = {false, false};
        for (int round = static_cast<int>(random() % 30); round >= 0; --round) {
          const unsigned at = random() % 2;
          if (!out[at]) {
            slots[at].x[0] = static_cast<float>(random() % 1000);
            slots[at].y[0] = -1;
            loop->submit(at, runs[at], {});
            out[at] = true;
            ++handedOver;
          } else if (random() % 4 == 0 && loop->takeBack(at)) {
            out[at] = false;
            ++lost;
          } else {
            const Completion done = own.next();
            const float x = slots[done.id].x[0], y = slots[done.id].y[0];
            out[done.id] = false;
            ++answered;
            if (done.failed != (model == "failing")) ++wrong;
            if (model == "plus-one" && y != x + 1) ++wrong;
            if (model == "identity" && y != x) ++wrong;
          }
        }
        const bool stopped = random() % 2 == 0;
        if (stopped) loop->stop();
        else loop->end();
        for (bool ended = false; !ended;) {
          const Completion done = own.next();
          ended = done.kind == Completion::Kind::kEnded;
          if (!ended) {
            out[done.id] = false;
            ++answered;
          }
        }
        for (unsigned at = 0; at < 2; ++at) {
          if (!out[at]) continue;
          ++lost;
          // Only what was stopped goes without a word; all else comes back.
          if (!loop->takeBack(at) && !(stopped && model == "failing")) ++wrong;
        }
        while (loop.use_count() > 1) std::this_thread::yield();
      }
      handed += handedOver;
    });
  }
  for (std::thread& application : applications) application.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(answered + lost, handed);
}

}  // namespace
}  // namespace zerohop::ort
