#include "fake_cuda_test.h"
#include "staging_pool.h"

namespace zerohop {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class PinnedPoolTest : public FakeCudaTest {
 protected:
  PinnedPoolTest() { pool.configure(kMiB, 4 * kMiB); }

  PlainMemory plain;
  StagingPool pool{plain, driver};
};

TEST_F(PinnedPoolTest, TakesPageLockedSlotsFromTheDriverAndSaysSo) {
  const auto lease = pool.acquire(100, 0);
  EXPECT_EQ(lease->kind, MemoryKind::kPinned);
  EXPECT_EQ(lease->reason, "");
  EXPECT_EQ(pool.stats().pinnedBytes, kMiB);
  EXPECT_EQ(counts->allocs, 1);
}

TEST_F(PinnedPoolTest, DoesNotTouchTheDriverForPlainSlots) {
  EXPECT_EQ(pool.acquire(100, kPlainMemory)->kind, MemoryKind::kPlain);
  EXPECT_EQ(counts->inits, 0);
}

TEST_F(PinnedPoolTest, KeepsThePageLockedAndThePlainApart) {
  pool.acquire(100, 0);
  pool.acquire(100, kPlainMemory);
  EXPECT_EQ(pool.stats().slabs, 2u);
  EXPECT_EQ(pool.stats().pinnedBytes, kMiB);
  EXPECT_EQ(pool.stats().reservedBytes, 2 * kMiB);
}

TEST_F(PinnedPoolTest, FreesPageLockedSlabsOnlyWhenTrimmed) {
  const auto lease = pool.acquire(100, 0);
  StagingPool::Slot* view = pool.refer(lease->id);
  pool.release(lease->id);
  StagingPool::unrefer(view);
  EXPECT_EQ(pool.stats().usedBytes, 0u);
  EXPECT_EQ(counts->frees, 0);
  EXPECT_EQ(pool.trim(), kMiB);
  EXPECT_EQ(counts->frees, 1);
  EXPECT_EQ(pool.stats().pinnedBytes, 0u);
  EXPECT_EQ(counts->contexts, 0);
}

TEST_F(PinnedPoolTest, FallsBackToPlainMemoryWithTheDriversReason) {
  fail("ALLOC", "2");
  const auto refused = pool.acquire(100, 0);
  EXPECT_EQ(refused->kind, MemoryKind::kPlain);
  EXPECT_EQ(refused->reason, "cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_EQ(pool.stats().failures, 0u);
  obey("ALLOC");
  EXPECT_EQ(pool.acquire(100, 0)->kind, MemoryKind::kPinned);
}

TEST_F(PinnedPoolTest, FallsBackToRoomInPlainSlabsWhereTheLimitAllowsNoOther) {
  pool.acquire(100, kPlainMemory);
  pool.configure(std::nullopt, kMiB);
  const auto lease = pool.acquire(100, 0);
  EXPECT_EQ(lease->kind, MemoryKind::kPlain);
  EXPECT_NE(lease->reason.find("limit"), std::string::npos);
}

TEST_F(PinnedPoolTest, KeepsTheMemoryOfDevicesApart) {
  fail("DEVICES", "2");
  pool.acquire(100, 1);
  pool.acquire(100, 0);
  pool.acquire(100, 1);
  EXPECT_EQ(counts->allocsOn[0], 1);
  EXPECT_EQ(counts->allocsOn[1], 1);
  EXPECT_EQ(pool.stats().pinnedBytes, 2 * kMiB);
}

TEST_F(PinnedPoolTest, IsPlainPastTheLimit) {
  pool.configure(std::nullopt, kMiB);
  EXPECT_EQ(pool.acquire(kMiB, 0)->kind, MemoryKind::kPinned);
  const auto lease = pool.acquire(kMiB, 0, true);
  EXPECT_EQ(lease->kind, MemoryKind::kPlain);
  EXPECT_TRUE(lease->pastLimit);
  EXPECT_NE(lease->reason.find("limit"), std::string::npos);
}

}  // namespace
}  // namespace zerohop
