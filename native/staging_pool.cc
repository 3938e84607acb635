#include "staging_pool.h"

#include <algorithm>
#include <utility>

namespace zerohop {

namespace {

constexpr std::size_t kCacheLineBytes = 64;
constexpr std::size_t kPageAlignedFromBytes = std::size_t{64} << 10;

}  // namespace

void StagingPool::configure(std::optional<std::size_t> slabBytes, std::optional<std::size_t> limitBytes) {
  std::lock_guard lock(mutex_);
  if (slabBytes && slabs_.empty()) slabBytes_ = roundUp(*slabBytes, kPageBytes);
  if (limitBytes) limitBytes_ = *limitBytes;
}

std::optional<Lease> StagingPool::acquire(std::size_t bytes, bool pageLocked) {
  std::lock_guard lock(mutex_);
  reclaim();
  const std::size_t alignment = bytes >= kPageAlignedFromBytes ? kPageBytes : kCacheLineBytes;
  const std::size_t slotBytes = roundUp(bytes, alignment);
  Slab* slab = nullptr;
  std::byte* data = nullptr;
  std::string reason;
  if (pageLocked) data = take(pinned_, slotBytes, alignment, slab, reason);
  if (data == nullptr) {
    std::string plainReason;
    data = take(plain_, slotBytes, alignment, slab, plainReason);
  }
  if (data == nullptr) {
    ++stats_.failures;
    return std::nullopt;
  }
  const std::uint64_t id = nextId_++;
  slots_.emplace(id, new Slot{slab, data, bytes, slotBytes});
  ++stats_.leases;
  stats_.usedBytes += slotBytes;
  stats_.highWaterBytes = std::max(stats_.highWaterBytes, stats_.usedBytes);
  return Lease{id, bytes, slab->source().kind(), std::move(reason)};
}

StagingPool::Slot* StagingPool::refer(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto found = slots_.find(id);
  if (found == slots_.end() || !found->second->leased) return nullptr;
  // The lease's own reference is held, and cannot go while we hold the mutex: the count is not 0.
  found->second->references.fetch_add(1, std::memory_order_relaxed);
  return found->second.get();
}

void StagingPool::release(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto found = slots_.find(id);
  if (found == slots_.end() || !found->second->leased) return;
  found->second->leased = false;
  --stats_.leases;
  unrefer(found->second.get());
  reclaim();
}

std::size_t StagingPool::trim() {
  std::lock_guard lock(mutex_);
  reclaim();
  std::size_t freed = 0;
  const auto unused = std::stable_partition(slabs_.begin(), slabs_.end(), [](auto& slab) { return !slab->unused(); });
  for (auto slab = unused; slab != slabs_.end(); ++slab) {
    freed += (*slab)->bytes();
    if ((*slab)->source().kind() == MemoryKind::kPinned) stats_.pinnedBytes -= (*slab)->bytes();
  }
  slabs_.erase(unused, slabs_.end());
  stats_.reservedBytes -= freed;
  return freed;
}

PoolStats StagingPool::stats() {
  std::lock_guard lock(mutex_);
  reclaim();
  stats_.slabs = slabs_.size();
  return stats_;
}

std::byte* StagingPool::take(MemorySource& source, std::size_t bytes, std::size_t alignment, Slab*& from,
                             std::string& reason) {
  for (const auto& slab : slabs_) {
    if (&slab->source() != &source) continue;
    from = slab.get();
    if (std::byte* data = from->take(bytes, alignment)) return data;
  }
  from = grow(source, bytes, reason);
  return from == nullptr ? nullptr : from->take(bytes, alignment);
}

Slab* StagingPool::grow(MemorySource& source, std::size_t bytes, std::string& reason) {
  const std::size_t room = limitBytes_ > stats_.reservedBytes ? limitBytes_ - stats_.reservedBytes : 0;
  const std::size_t needed = roundUp(bytes, kPageBytes);
  if (needed > room) {
    reason = "the limit of " + std::to_string(limitBytes_) + " bytes leaves no room for another slab";
    return nullptr;
  }
  // The last slab before the limit may be a short one, and a slot larger than a slab gets one of its own size.
  const std::size_t slabBytes = std::max(needed, std::min(slabBytes_, room / kPageBytes * kPageBytes));
  void* data = source.allocate(slabBytes, reason);
  if (data == nullptr) return nullptr;
  stats_.reservedBytes += slabBytes;
  if (source.kind() == MemoryKind::kPinned) stats_.pinnedBytes += slabBytes;
  return slabs_.emplace_back(std::make_unique<Slab>(source, data, slabBytes)).get();
}

// Slots are few (a handful per model instance) and the pool's turns are rare, so looking at all of them is
// cheaper than having finalizers keep a list.
void StagingPool::reclaim() {
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    if (slot->second->references.load(std::memory_order_acquire) != 0) {
      ++slot;
      continue;
    }
    slot->second->slab->give(slot->second->data, slot->second->slotBytes);
    stats_.usedBytes -= slot->second->slotBytes;
    slot = slots_.erase(slot);
  }
}

StagingPool& processPool() {
  static StagingPool* pool = new StagingPool(*new PlainMemory(), *new PinnedMemory(processCudaDriver()));
  return *pool;
}

}  // namespace zerohop
