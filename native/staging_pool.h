// The process-wide pool of staging memory. Knows nothing of JavaScript: who uses a slot holds a counted reference.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "memory_source.h"
#include "slab.h"

namespace zerohop {

// Instead of a device's ordinal: memory need not be page-locked.
constexpr int kPlainMemory = -1;

struct Lease {
  std::uint64_t id;
  std::size_t bytes;
  MemoryKind kind;
  bool pastLimit;      // it has memory of its own, beside the pool's slabs
  std::string reason;  // why it is not page-locked although that was asked for; empty otherwise
};

struct PoolStats {
  std::size_t slabs = 0;
  std::size_t limitBytes = 0;
  std::size_t reservedBytes = 0;
  std::size_t pinnedBytes = 0;
  std::size_t pastLimitBytes = 0;  // the part of reservedBytes that does not count towards the limit
  std::size_t usedBytes = 0;
  std::size_t highWaterBytes = 0;
  std::size_t leases = 0;
  std::size_t failures = 0;  // times that the limit left no room
};

// Memory is alive as long as its count is not 0: the lease counts one, and so does every run loop that has the slot.
// Memory past the limit goes back to the system with its last reference, at the pool's next turn. The pool's own
// slabs stay for the next slot until trim(), or until the limit has no room left for another: freeing page-locked
// memory stops the GPU, so it happens when somebody says so, never in a finalizer.
class StagingPool {
 public:
  // A slot as its references see it; it outlives the last of them.
  struct Slot {
    Slab* slab;
    std::byte* data;
    std::size_t bytes;
    std::size_t slotBytes;
    std::atomic<bool> leased{true};
    std::atomic<std::uint32_t> references{1};
  };

  StagingPool(MemorySource& plain, CudaDriver& driver) : plain_(plain), driver_(driver) {}

  // The size of slabs is fixed by the first of them; the limit may move at any time and counts while nobody claims one.
  void configure(std::optional<std::size_t> slabBytes, std::optional<std::size_t> limitBytes);

  // The limit is one for the process: the largest that is claimed. Returns the claim, to be dropped by who made it.
  std::uint64_t claimLimit(std::size_t limitBytes);
  void dropLimit(std::uint64_t claim);

  // Page-locked for a device, or plain with kPlainMemory, and where page-locked memory is not to be had. Where the
  // limit is reached there is nothing, or with `pastLimit` plain memory that the pool does not keep.
  std::optional<Lease> acquire(std::size_t bytes, int device, bool pastLimit = false);

  // Adds a reference to a slot whose lease is held; nullptr for any other id.
  Slot* refer(std::uint64_t id);

  // Called by finalizers: on any thread, during teardown, perhaps while the pool is locked. So it only counts,
  // and the memory becomes free at the pool's next turn. The slot must not be touched afterwards.
  static void unrefer(Slot* slot) noexcept { slot->references.fetch_sub(1, std::memory_order_acq_rel); }

  // As unrefer, and drops the lease, too.
  static void abandon(Slot* slot) noexcept {
    if (slot->leased.exchange(false)) unrefer(slot);
    unrefer(slot);
  }

  // Drops the lease's own reference. A second time, or with an unknown id, it does nothing.
  void release(std::uint64_t id);

  // Gives slabs without a single slot in use back to the system; returns their bytes.
  std::size_t trim();

  PoolStats stats();

 private:
  class Turn;

  std::byte* take(Turn& turn, MemorySource& source, std::size_t bytes, std::size_t alignment, Slab*& from,
                  std::string& reason);
  Slab* grow(Turn& turn, MemorySource& source, std::size_t bytes, std::string& reason);
  Slab* add(Turn& turn, MemorySource& source, std::size_t bytes, bool pastLimit, std::string& reason);
  MemorySource& pinnedFor(int device);
  std::size_t limit() const;
  std::size_t room() const;
  void reclaim();
  std::size_t drop(bool (*which)(const Slab&));

  MemorySource& plain_;
  CudaDriver& driver_;
  std::mutex mutex_;
  std::size_t slabBytes_ = std::size_t{16} << 20;
  std::size_t limitBytes_ = std::size_t{256} << 20;
  std::map<std::uint64_t, std::size_t> claims_;
  std::map<int, PinnedMemory> pinned_;  // by the device's ordinal
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<std::unique_ptr<Slab>> dropped_;  // freed as soon as the mutex is
  std::map<std::uint64_t, std::unique_ptr<Slot>> slots_;
  std::uint64_t nextId_ = 1;
  PoolStats stats_;
};

// The process's one pool, shared by every isolate. It is leaked: at exit the system takes the memory back, while
// a destructor would run after the CUDA driver's own and race with workers that are still there.
StagingPool& processPool();

}  // namespace zerohop
