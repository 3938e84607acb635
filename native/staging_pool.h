// The process-wide pool of staging memory. Knows nothing of JavaScript: isolates hold counted references to slots.
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

struct Lease {
  std::uint64_t id;
  std::size_t bytes;
  MemoryKind kind;
  std::string reason;  // why it is not page-locked although that was asked for; empty otherwise
};

struct PoolStats {
  std::size_t slabs = 0;
  std::size_t reservedBytes = 0;
  std::size_t pinnedBytes = 0;
  std::size_t usedBytes = 0;
  std::size_t highWaterBytes = 0;
  std::size_t leases = 0;
  std::size_t failures = 0;  // times that acquire() gave nothing
};

// Memory is alive as long as its count is not 0: the lease counts one, and so does every view in every isolate.
// Only trim() and the destructor give memory back to the system: freeing page-locked memory stops the GPU, so it
// happens when the owner says so, never in a finalizer.
class StagingPool {
 public:
  // A slot as its references see it; it outlives the last of them.
  struct Slot {
    Slab* slab;
    std::byte* data;
    std::size_t bytes;
    std::size_t slotBytes;
    bool leased = true;  // guarded by the pool's mutex
    std::atomic<std::uint32_t> references{1};
  };

  StagingPool(MemorySource& plain, MemorySource& pinned) : plain_(plain), pinned_(pinned) {}

  // The size of slabs is fixed by the first of them; the limit may move at any time.
  void configure(std::optional<std::size_t> slabBytes, std::optional<std::size_t> limitBytes);

  // Falls back to plain memory where page-locked memory is not to be had. Nothing = the limit is reached.
  std::optional<Lease> acquire(std::size_t bytes, bool pageLocked);

  // Adds a reference to a slot whose lease is held; nullptr for any other id.
  Slot* refer(std::uint64_t id);

  // Called by finalizers: on any thread, during teardown, perhaps while the pool is locked. So it only counts,
  // and the memory becomes free at the pool's next turn. The slot must not be touched afterwards.
  static void unrefer(Slot* slot) noexcept { slot->references.fetch_sub(1, std::memory_order_acq_rel); }

  // Drops the lease's own reference. A second time, or with an unknown id, it does nothing.
  void release(std::uint64_t id);

  // Gives slabs without a single slot in use back to the system; returns their bytes.
  std::size_t trim();

  PoolStats stats();

 private:
  std::byte* take(MemorySource& source, std::size_t bytes, std::size_t alignment, Slab*& from, std::string& reason);
  Slab* grow(MemorySource& source, std::size_t bytes, std::string& reason);
  void reclaim();

  MemorySource& plain_;
  MemorySource& pinned_;
  std::mutex mutex_;
  std::size_t slabBytes_ = std::size_t{16} << 20;
  std::size_t limitBytes_ = std::size_t{256} << 20;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::map<std::uint64_t, std::unique_ptr<Slot>> slots_;
  std::uint64_t nextId_ = 1;
  PoolStats stats_;
};

// The process's one pool, shared by every isolate. It is leaked: at exit the system takes the memory back, while
// a destructor would run after the CUDA driver's own and race with workers that are still there.
StagingPool& processPool();

}  // namespace zerohop
