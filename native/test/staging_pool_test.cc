#include "staging_pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace zerohop {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

bool alignedTo(const void* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

class StagingPoolTest : public testing::Test {
 protected:
  StagingPoolTest() { pool.configure(kMiB, 4 * kMiB); }

  std::byte* dataOf(const std::optional<Lease>& lease) {
    StagingPool::Slot* slot = pool.refer(lease->id);
    std::byte* data = slot->data;
    StagingPool::unrefer(slot);
    return data;
  }

  PlainMemory plain;
  CudaDriver absent{"/nonexistent/libcuda.so.1"};
  StagingPool pool{plain, absent};
};

TEST_F(StagingPoolTest, AlignsSmallSlotsToCacheLinesAndLargeOnesToPages) {
  EXPECT_TRUE(alignedTo(dataOf(pool.acquire(1, kPlainMemory)), 64));
  EXPECT_TRUE(alignedTo(dataOf(pool.acquire((64 << 10) - 1, kPlainMemory)), 64));
  EXPECT_TRUE(alignedTo(dataOf(pool.acquire(64 << 10, kPlainMemory)), 4096));
  EXPECT_TRUE(alignedTo(dataOf(pool.acquire(100'001, kPlainMemory)), 4096));
}

TEST_F(StagingPoolTest, GivesSlotsThatDoNotOverlap) {
  const auto first = pool.acquire(100, kPlainMemory), second = pool.acquire(100, kPlainMemory);
  std::memset(dataOf(first), 1, 100);
  std::memset(dataOf(second), 2, 100);
  EXPECT_EQ(dataOf(first)[99], std::byte{1});
}

TEST_F(StagingPoolTest, UsesAReleasedSlotAgain) {
  const auto first = pool.acquire(1000, kPlainMemory);
  std::byte* data = dataOf(first);
  pool.release(first->id);
  EXPECT_EQ(dataOf(pool.acquire(1000, kPlainMemory)), data);
  EXPECT_EQ(pool.stats().slabs, 1u);
}

TEST_F(StagingPoolTest, MergesReleasedNeighboursIntoRoomForALargerSlot) {
  std::vector<std::uint64_t> ids;
  for (int count = 0; count < 16; ++count) ids.push_back(pool.acquire(kMiB / 16, kPlainMemory)->id);
  for (std::uint64_t id : ids) pool.release(id);
  EXPECT_TRUE(pool.acquire(kMiB, kPlainMemory));
  EXPECT_EQ(pool.stats().slabs, 1u);
}

TEST_F(StagingPoolTest, GrowsBySlabsUpToTheLimitAndThenRefuses) {
  for (int count = 0; count < 4; ++count) EXPECT_TRUE(pool.acquire(kMiB, kPlainMemory));
  EXPECT_FALSE(pool.acquire(1, kPlainMemory));
  EXPECT_EQ(pool.stats().slabs, 4u);
  EXPECT_EQ(pool.stats().reservedBytes, 4 * kMiB);
  EXPECT_EQ(pool.stats().failures, 1u);
}

TEST_F(StagingPoolTest, GivesALargeSlotASlabOfItsOwnSize) {
  EXPECT_TRUE(pool.acquire(2 * kMiB + 1, kPlainMemory));
  EXPECT_EQ(pool.stats().reservedBytes, 2 * kMiB + 4096);
}

TEST_F(StagingPoolTest, MakesTheLastSlabAsShortAsTheLimitAsks) {
  pool.configure(std::nullopt, kMiB + kMiB / 2);
  EXPECT_TRUE(pool.acquire(kMiB, kPlainMemory));
  EXPECT_TRUE(pool.acquire(kMiB / 2, kPlainMemory));
  EXPECT_FALSE(pool.acquire(1, kPlainMemory));
  EXPECT_EQ(pool.stats().reservedBytes, kMiB + kMiB / 2);
}

TEST_F(StagingPoolTest, LetsTheLimitMoveLaterButNotTheSizeOfSlabs) {
  EXPECT_TRUE(pool.acquire(1, kPlainMemory));
  pool.configure(2 * kMiB, 2 * kMiB);
  EXPECT_TRUE(pool.acquire(kMiB, kPlainMemory));
  EXPECT_EQ(pool.stats().reservedBytes, 2 * kMiB);
  pool.configure(std::nullopt, kMiB);
  EXPECT_FALSE(pool.acquire(kMiB, kPlainMemory));
}

TEST_F(StagingPoolTest, CountsUsedBytesAndTheirHighWater) {
  const auto first = pool.acquire(100, kPlainMemory), second = pool.acquire(64, kPlainMemory);
  EXPECT_EQ(pool.stats().usedBytes, 192u);
  EXPECT_EQ(pool.stats().leases, 2u);
  pool.release(first->id);
  pool.release(second->id);
  EXPECT_EQ(pool.stats().usedBytes, 0u);
  EXPECT_EQ(pool.stats().highWaterBytes, 192u);
  EXPECT_EQ(pool.stats().leases, 0u);
}

TEST_F(StagingPoolTest, KeepsMemoryWhileAReferenceOutlivesItsLease) {
  const auto lease = pool.acquire(100, kPlainMemory);
  StagingPool::Slot* view = pool.refer(lease->id);
  pool.release(lease->id);
  EXPECT_EQ(pool.stats().leases, 0u);
  EXPECT_EQ(pool.stats().usedBytes, 128u);
  EXPECT_EQ(pool.trim(), 0u);
  view->data[99] = std::byte{7};
  StagingPool::unrefer(view);
  EXPECT_EQ(pool.stats().usedBytes, 0u);
}

TEST_F(StagingPoolTest, GivesNoReferenceToAReleasedOrUnknownLease) {
  const auto lease = pool.acquire(100, kPlainMemory);
  StagingPool::Slot* view = pool.refer(lease->id);
  pool.release(lease->id);
  EXPECT_EQ(pool.refer(lease->id), nullptr);
  EXPECT_EQ(pool.refer(999), nullptr);
  StagingPool::unrefer(view);
}

TEST_F(StagingPoolTest, TakesALeaseBackWhoseHolderIsGone) {
  const auto lease = pool.acquire(100, kPlainMemory);
  StagingPool::Slot *holder = pool.refer(lease->id), *loop = pool.refer(lease->id);
  StagingPool::abandon(holder);
  EXPECT_EQ(pool.refer(lease->id), nullptr);
  EXPECT_EQ(pool.stats().leases, 0u);
  EXPECT_EQ(pool.stats().usedBytes, 128u);
  pool.release(lease->id);
  StagingPool::unrefer(loop);
  EXPECT_EQ(pool.stats().usedBytes, 0u);
}

TEST_F(StagingPoolTest, TakesTheReferenceAloneOfAHolderWhoseLeaseWasReleased) {
  const auto lease = pool.acquire(100, kPlainMemory);
  StagingPool::Slot *holder = pool.refer(lease->id), *loop = pool.refer(lease->id);
  pool.release(lease->id);
  StagingPool::abandon(holder);
  EXPECT_EQ(pool.stats().usedBytes, 128u);
  StagingPool::unrefer(loop);
  EXPECT_EQ(pool.stats().usedBytes, 0u);
}

TEST_F(StagingPoolTest, TakesASecondReleaseForNothing) {
  const auto lease = pool.acquire(100, kPlainMemory);
  StagingPool::Slot* view = pool.refer(lease->id);
  pool.release(lease->id);
  pool.release(lease->id);
  EXPECT_EQ(pool.stats().usedBytes, 128u);
  StagingPool::unrefer(view);
  pool.release(lease->id);
  pool.release(999);
  EXPECT_EQ(pool.stats().leases, 0u);
}

TEST_F(StagingPoolTest, TrimsOnlySlabsWithoutASlotInUse) {
  const auto first = pool.acquire(kMiB, kPlainMemory), second = pool.acquire(kMiB, kPlainMemory);
  pool.release(first->id);
  EXPECT_EQ(pool.trim(), kMiB);
  EXPECT_EQ(pool.stats().reservedBytes, kMiB);
  pool.release(second->id);
  EXPECT_EQ(pool.trim(), kMiB);
  EXPECT_EQ(pool.trim(), 0u);
  EXPECT_EQ(pool.stats().slabs, 0u);
}

TEST_F(StagingPoolTest, SaysWhyItIsNotPageLockedWhereThereIsNoDriver) {
  const auto lease = pool.acquire(100, 0);
  EXPECT_EQ(lease->kind, MemoryKind::kPlain);
  EXPECT_NE(lease->reason.find("/nonexistent/libcuda.so.1"), std::string::npos);
  EXPECT_EQ(pool.stats().pinnedBytes, 0u);
}

TEST_F(StagingPoolTest, GivesMemoryPastTheLimitWhereThatIsAskedForAndFreesItWithItsLastReference) {
  const auto kept = pool.acquire(4 * kMiB, kPlainMemory);
  EXPECT_FALSE(kept->pastLimit);
  const auto lease = pool.acquire(8 * kMiB, kPlainMemory, true);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(lease->pastLimit);
  EXPECT_TRUE(alignedTo(dataOf(lease), 4096));
  std::memset(dataOf(lease), 1, 8 * kMiB);
  EXPECT_EQ(pool.stats().failures, 1u);
  EXPECT_EQ(pool.stats().reservedBytes, 12 * kMiB);
  EXPECT_EQ(pool.stats().pastLimitBytes, 8 * kMiB);
  StagingPool::Slot* view = pool.refer(lease->id);
  pool.release(lease->id);
  EXPECT_EQ(pool.stats().pastLimitBytes, 8 * kMiB);
  StagingPool::unrefer(view);
  EXPECT_EQ(pool.stats().pastLimitBytes, 0u);
  EXPECT_EQ(pool.stats().reservedBytes, 4 * kMiB);
}

TEST_F(StagingPoolTest, DoesNotCountMemoryPastTheLimitTowardsIt) {
  EXPECT_TRUE(pool.acquire(5 * kMiB, kPlainMemory, true)->pastLimit);
  EXPECT_FALSE(pool.acquire(4 * kMiB, kPlainMemory, true)->pastLimit);
}

TEST_F(StagingPoolTest, FreesUnusedSlabsWhereTheLimitLeavesNoRoomOtherwise) {
  const auto first = pool.acquire(3 * kMiB, kPlainMemory);
  pool.release(first->id);
  EXPECT_EQ(pool.stats().reservedBytes, 3 * kMiB);
  EXPECT_TRUE(pool.acquire(4 * kMiB, kPlainMemory));
  EXPECT_EQ(pool.stats().reservedBytes, 4 * kMiB);
}

TEST_F(StagingPoolTest, HasTheLargestLimitThatIsClaimed) {
  const auto small = pool.claimLimit(2 * kMiB), large = pool.claimLimit(16 * kMiB);
  EXPECT_EQ(pool.stats().limitBytes, 16 * kMiB);
  pool.dropLimit(large);
  pool.dropLimit(large);
  EXPECT_EQ(pool.stats().limitBytes, 2 * kMiB);
  pool.dropLimit(small);
  EXPECT_EQ(pool.stats().limitBytes, 4 * kMiB);
}

TEST_F(StagingPoolTest, RefusesWhatTheSystemDoesNotHaveAndCountsNothingForIt) {
  pool.configure(std::nullopt, std::size_t{1} << 50);
  EXPECT_FALSE(pool.acquire(std::size_t{1} << 50, kPlainMemory, true));
  EXPECT_EQ(pool.stats().reservedBytes, 0u);
  EXPECT_EQ(pool.stats().usedBytes, 0u);
}

}  // namespace
}  // namespace zerohop
