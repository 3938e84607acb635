#include "ort/arena.h"

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

class ArenaTest : public FakeOrtTest {
 protected:
  void TearDown() override {
    EXPECT_EQ(counts.allocators, 0);
    FakeOrtTest::TearDown();
  }
};

TEST_F(ArenaTest, TellsWhatItHoldsAndGivesItBack) {
  const auto session = open("plus-one");
  TestSlot slot;
  const auto run = slot.prepare(session);
  ValueCopies none;
  for (int count = 0; count < 3; ++count) run->run(nullptr, none);
  const auto before = arenaStats(*session);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->totalBytes, 192u);
  EXPECT_EQ(before->inUseBytes, 8u);
  EXPECT_EQ(before->mostInUseBytes, 40u);
  shrinkArena(*session);
  EXPECT_EQ(arenaStats(*session)->totalBytes, 16u);
}

TEST_F(ArenaTest, BeginsWithAPieceThatIsGivenBack) {
  const auto session = open("plus-one");
  beginArena(*session);
  counts.failAt = 75;
  EXPECT_THROW(beginArena(*session), OrtError);
  counts.failAt = -1;
}

TEST_F(ArenaTest, IsNotThereForEverySession) { EXPECT_FALSE(arenaStats(*open("no-arena"))); }

TEST_F(ArenaTest, LosesNothingWhateverFails) {
  const auto session = open("plus-one");
  for (const int place : {39, 46, 48, 131, 165, 319}) {
    counts.failAt = place;
    const bool ofStats = place == 131 || place == 319;
    if (ofStats) EXPECT_THROW(arenaStats(*session), OrtError) << place;
    else EXPECT_THROW(shrinkArena(*session), OrtError) << place;
    counts.failAt = -1;
  }
  counts.failAt = 9;
  shrinkArena(*session);  // that run fails in any case
  counts.failAt = -1;
}

}  // namespace
}  // namespace zerohop::ort
