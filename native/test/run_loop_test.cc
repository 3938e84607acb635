#include "ort/run_loop.h"

#include "run_loop_fixture.h"

namespace zerohop::ort {
namespace {

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
  EXPECT_FALSE(loop->cancelBatch(1));
  loop->submit(1, slot.prepare(open("endless")), {});
  loop->submit(2, slot.prepare(open("plus-one")), {});
  untilRunning();
  loop->submit(3, slot.prepare(open("plus-one")), {});
  EXPECT_FALSE(loop->cancelBatch(4));
  EXPECT_TRUE(loop->cancelBatch(2)) << "one that has not started fails, too";
  EXPECT_TRUE(loop->cancelBatch(1));
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

TEST_F(RunLoopTest, CancelsWhatItWasAskedFor) {
  auto loop = serving();
  const auto opens = [&, its = loop.get()](Completion& done) {
    done.session = std::make_shared<Session>(library, ModelSource{"never-open", nullptr, 0, 0}, std::vector<SessionSetting>{}, its->opening);
  };
  loop->ask(1, opens);
  loop->ask(2, opens);
  while (counts.opening == 0) std::this_thread::yield();
  EXPECT_FALSE(loop->cancelBatch(1)) << "a question is no batch";
  EXPECT_FALSE(loop->cancelQuestion(3));
  EXPECT_TRUE(loop->cancelQuestion(2)) << "one that has not started fails, too";
  EXPECT_TRUE(loop->cancelQuestion(1));
  for (const std::uint64_t id : {1u, 2u}) {
    const Completion cancelled = completions.next();
    EXPECT_EQ(cancelled.kind, Completion::Kind::kAnswer);
    EXPECT_EQ(cancelled.id, id);
    EXPECT_TRUE(cancelled.failed);
  }
  loop->ask(3, [&, its = loop.get()](Completion& done) {
    done.session = std::make_shared<Session>(library, ModelSource{"plus-one", nullptr, 0, 0}, std::vector<SessionSetting>{}, its->opening);
  });
  EXPECT_FALSE(completions.next().failed) << "what was cancelled before does not count";
  end(loop);
}

TEST_F(RunLoopTest, EndsAnOpeningWhenItIsStopped) {
  auto loop = serving();
  loop->ask(1, [&, its = loop.get()](Completion&) {
    Session(library, ModelSource{"never-open", nullptr, 0, 0}, {}, its->opening);
  });
  while (counts.opening == 0) std::this_thread::yield();
  loop->stop();
  EXPECT_EQ(completions.next().kind, Completion::Kind::kEnded);
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
  loop->sessions.set(1, open("plus-one"));
  loop->sessions.set(2, open("plus-one"));
  EXPECT_NE(loop->sessions.find(1), nullptr);
  loop->sessions.drop(1);
  EXPECT_EQ(loop->sessions.find(1), nullptr);
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

TEST(SpinHistoryTest, LooksLessAndLessOftenUntilALookFindsSomething) {
  SpinHistory spins;
  const auto sleepsUntilALook = [&] {
    int sleeps = 0;
    while (!spins.shouldLook()) ++sleeps;
    return sleeps;
  };
  for (const int sleeps : {0, 1, 3, 7, 15, 31, 63, 63}) {
    EXPECT_EQ(sleepsUntilALook(), sleeps);
    spins.looked(false);
  }
  sleepsUntilALook();
  spins.looked(true);
  EXPECT_EQ(sleepsUntilALook(), 0);
  EXPECT_EQ(sleepsUntilALook(), 0) << "as long as no look was in vain";
}

}  // namespace
}  // namespace zerohop::ort
