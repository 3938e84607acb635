#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "staging_pool.h"

namespace zerohop {
namespace {

// Every slot is filled with its lease's number; a slot handed out twice shows as a foreign number.
bool holdsOnly(const StagingPool::Slot& slot, unsigned char mark) {
  for (std::size_t at = 0; at < slot.bytes; ++at) {
    if (slot.data[at] != std::byte{mark}) return false;
  }
  return true;
}

TEST(StagingPoolThreads, NeverShareASlotAndLeaveNothingBehind) {
  PlainMemory plain;
  CudaDriver absent{"/nonexistent/libcuda.so.1"};
  StagingPool pool{plain, absent};
  pool.configure(std::size_t{256} << 10, std::size_t{4} << 20);
  std::atomic<int> damaged{0};

  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::deque<StagingPool::Slot*> views;  // outlive their leases by up to eight turns
    const auto dropOldest = [&] {
      unsigned char mark = std::to_integer<unsigned char>(views.front()->data[0]);
      if (!holdsOnly(*views.front(), mark)) ++damaged;
      StagingPool::unrefer(views.front());
      views.pop_front();
    };
    for (int turn = 0; turn < 2000; ++turn) {
      const auto lease = pool.acquire(1 + random() % 5000 * (turn % 16 == 0 ? 20 : 1), turn % 3 == 0 ? 0 : kPlainMemory);
      if (lease) {
        StagingPool::Slot* view = pool.refer(lease->id);
        std::memset(view->data, static_cast<int>(lease->id & 0xff), view->bytes);
        views.push_back(view);
        pool.release(lease->id);
      }
      if (turn % 100 == 0) pool.trim();
      if (views.size() > 8) dropOldest();
    }
    while (!views.empty()) dropOldest();
  };

  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(pool.stats().usedBytes, 0u);
  EXPECT_EQ(pool.stats().leases, 0u);
  pool.trim();
  EXPECT_EQ(pool.stats().slabs, 0u);
}

// The last reference may fall on another thread than the one that releases the lease or trims, and the lease be abandoned.
TEST(StagingPoolThreads, DropReferencesOfOneLeaseAtTheSameTime) {
  PlainMemory plain;
  CudaDriver absent{"/nonexistent/libcuda.so.1"};
  StagingPool pool{plain, absent};
  for (int round = 0; round < 200; ++round) {
    const auto lease = pool.acquire(64, kPlainMemory);
    StagingPool::Slot* slot = nullptr;
    for (int count = 0; count < 4; ++count) slot = pool.refer(lease->id);
    std::vector<std::thread> threads;
    for (int count = 0; count < 4; ++count) {
      const auto drop = count == 0 && round % 2 == 0 ? StagingPool::abandon : StagingPool::unrefer;
      threads.emplace_back([drop, slot] { drop(slot); });
    }
    pool.release(lease->id);
    pool.trim();
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(pool.stats().usedBytes, 0u);
  }
}

}  // namespace
}  // namespace zerohop
