#include "slab.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace zerohop {
namespace {

class SlabTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 16 * kPageBytes;

  PlainMemory memory;
  std::string reason;
  Slab slab{memory, memory.allocate(kBytes, reason), kBytes};
};

TEST_F(SlabTest, IsUnusedUntilAPieceIsTakenAndAgainAfterItIsGivenBack) {
  EXPECT_TRUE(slab.unused());
  std::byte* piece = slab.take(64, 64);
  EXPECT_FALSE(slab.unused());
  slab.give(piece, 64);
  EXPECT_TRUE(slab.unused());
}

TEST_F(SlabTest, HandsOutEveryByteAndThenNothing) {
  EXPECT_NE(slab.take(kBytes, kPageBytes), nullptr);
  EXPECT_EQ(slab.take(64, 64), nullptr);
}

TEST_F(SlabTest, PutsSmallPiecesIntoTheGapThatAnAlignedOneLeavesBefore) {
  std::byte* first = slab.take(64, 64);
  std::byte* aligned = slab.take(kPageBytes, kPageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % kPageBytes, 0u);
  EXPECT_EQ(aligned - first, static_cast<std::ptrdiff_t>(kPageBytes));
  EXPECT_EQ(slab.take(64, 64), first + 64);
}

TEST_F(SlabTest, MergesNeighboursInWhateverOrderTheyComeBack) {
  const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    std::byte* pieces[] = {slab.take(64, 64), slab.take(128, 64), slab.take(192, 64)};
    const std::size_t sizes[] = {64, 128, 192};
    for (int index : order) slab.give(pieces[index], sizes[index]);
    EXPECT_TRUE(slab.unused());
  }
}

TEST_F(SlabTest, DoesNotMergeAcrossAPieceInUse) {
  std::byte* before = slab.take(64, 64);
  std::byte* kept = slab.take(64, 64);
  std::byte* after = slab.take(kBytes - 128, 64);
  slab.give(before, 64);
  slab.give(after, kBytes - 128);
  EXPECT_EQ(slab.take(kBytes - 64, 64), nullptr);
  slab.give(kept, 64);
  EXPECT_TRUE(slab.unused());
}

using SlabDeathTest = SlabTest;

TEST_F(SlabDeathTest, EndsTheProcessRatherThanTakeBackWhatItNeverGave) {
  std::byte* piece = slab.take(128, 64);
  EXPECT_DEATH(slab.give(piece + kBytes, 64), "internal check failed");
  EXPECT_DEATH(slab.give(piece, 2 * kBytes), "internal check failed");
  EXPECT_DEATH(slab.give(piece + 64, 128), "internal check failed");
  slab.give(piece, 128);
  EXPECT_DEATH(slab.give(piece, 128), "internal check failed");
}

}  // namespace
}  // namespace zerohop
