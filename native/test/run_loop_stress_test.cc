#include <random>

#include "ort/session_table.h"
#include "run_loop_fixture.h"

namespace zerohop::ort {
namespace {

using RunLoopStressTest = RunLoopTest;

// Whatever fails, every question and batch is answered, and nothing is left.
TEST_F(RunLoopStressTest, AnswersWhicheverEntryFails) {
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
                                               std::vector<SessionSetting>{{"intraOpNumThreads", "", "1", {}}}, loop->opening);
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
TEST_F(RunLoopStressTest, LosesNothingWhileLoopsComeAndGo) {
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
        const auto session = table.open(library, ModelSource{"", model.data(), model.size(), random() % 2}, {{"config", model, "", {}}}, true, loop->opening);
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
