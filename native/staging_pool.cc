#include "staging_pool.h"

#include <algorithm>
#include <utility>

#include "check.h"

namespace zerohop {

namespace {

constexpr std::size_t kCacheLineBytes = 64;
constexpr std::size_t kPageAlignedFromBytes = std::size_t{64} << 10;

bool isUnused(const Slab& slab) { return slab.unused(); }
bool isUnusedPastLimit(const Slab& slab) { return slab.pastLimit() && slab.unused(); }

}  // namespace

// Holds the pool's mutex. To map, page-lock and unmap memory takes milliseconds: it is done while the mutex is free.
class StagingPool::Turn {
 public:
  explicit Turn(StagingPool& pool) : pool_(pool), lock_(pool.mutex_) { pool_.reclaim(); }
  ~Turn() {
    std::vector<std::unique_ptr<Slab>> dropped = std::exchange(pool_.dropped_, {});
    lock_.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void* allocate(MemorySource& source, std::size_t bytes, std::string& reason) {
    std::vector<std::unique_ptr<Slab>> dropped = std::exchange(pool_.dropped_, {});
    lock_.unlock();
    dropped.clear();
    void* data = source.allocate(bytes, reason);
    lock_.lock();
    return data;
  }

 private:
  StagingPool& pool_;
  std::unique_lock<std::mutex> lock_;
};

void StagingPool::configure(std::optional<std::size_t> slabBytes, std::optional<std::size_t> limitBytes) {
  std::lock_guard lock(mutex_);
  if (slabBytes && slabs_.empty()) slabBytes_ = roundUp(*slabBytes, kPageBytes);
  if (limitBytes) limitBytes_ = *limitBytes;
}

std::uint64_t StagingPool::claimLimit(std::size_t limitBytes) {
  std::lock_guard lock(mutex_);
  const std::uint64_t claim = nextId_++;
  claims_.emplace(claim, limitBytes);
  return claim;
}

void StagingPool::dropLimit(std::uint64_t claim) {
  std::lock_guard lock(mutex_);
  claims_.erase(claim);
}

std::optional<Lease> StagingPool::acquire(std::size_t bytes, int device, bool pastLimit) {
  ZEROHOP_CHECK(bytes > 0);
  Turn turn(*this);
  const std::size_t alignment = bytes >= kPageAlignedFromBytes ? kPageBytes : kCacheLineBytes;
  const std::size_t slotBytes = roundUp(bytes, alignment);
  Slab* slab = nullptr;
  std::byte* data = nullptr;
  std::string reason, plainReason;
  if (device != kPlainMemory) data = take(turn, pinnedFor(device), slotBytes, alignment, slab, reason);
  if (data == nullptr) data = take(turn, plain_, slotBytes, alignment, slab, plainReason);
  if (data == nullptr) ++stats_.failures;
  if (data == nullptr && pastLimit) {
    slab = add(turn, plain_, roundUp(slotBytes, kPageBytes), true, plainReason);
    if (slab != nullptr) data = slab->take(slotBytes, alignment);
  }
  if (data == nullptr) return std::nullopt;
  const std::uint64_t id = nextId_++;
  slots_.emplace(id, new Slot{slab, data, bytes, slotBytes});
  stats_.usedBytes += slotBytes;
  stats_.highWaterBytes = std::max(stats_.highWaterBytes, stats_.usedBytes);
  return Lease{id, bytes, slab->source().kind(), slab->pastLimit(), std::move(reason)};
}

StagingPool::Slot* StagingPool::refer(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto found = slots_.find(id);
  if (found == slots_.end() || !found->second->leased) return nullptr;
  // The lease may be abandoned meanwhile; the slot itself goes under the mutex only, once it has no reference.
  found->second->references.fetch_add(1, std::memory_order_relaxed);
  return found->second.get();
}

void StagingPool::release(std::uint64_t id) {
  Turn turn(*this);
  const auto found = slots_.find(id);
  if (found == slots_.end() || !found->second->leased.exchange(false)) return;
  unrefer(found->second.get());
  reclaim();
}

std::size_t StagingPool::trim() {
  Turn turn(*this);
  return drop(isUnused);
}

PoolStats StagingPool::stats() {
  Turn turn(*this);
  stats_.slabs = slabs_.size();
  stats_.limitBytes = limit();
  const auto isLeased = [](const auto& slot) { return slot.second->leased.load(); };
  stats_.leases = static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), isLeased));
  return stats_;
}

std::byte* StagingPool::take(Turn& turn, MemorySource& source, std::size_t bytes, std::size_t alignment, Slab*& from,
                             std::string& reason) {
  for (const auto& slab : slabs_) {
    if (&slab->source() != &source || slab->pastLimit()) continue;
    from = slab.get();
    if (std::byte* data = from->take(bytes, alignment)) return data;
  }
  from = grow(turn, source, bytes, reason);
  return from == nullptr ? nullptr : from->take(bytes, alignment);
}

Slab* StagingPool::grow(Turn& turn, MemorySource& source, std::size_t bytes, std::string& reason) {
  const std::size_t needed = roundUp(bytes, kPageBytes);
  // Slabs that are too small for this slot, or of another kind, and hold none.
  if (needed > room()) drop(isUnused);
  if (needed > room()) {
    reason = "the limit of " + std::to_string(limit()) + " bytes leaves no room for another slab";
    return nullptr;
  }
  // The last slab before the limit may be a short one, and a slot larger than a slab gets one of its own size.
  return add(turn, source, std::max(needed, std::min(slabBytes_, room() / kPageBytes * kPageBytes)), false, reason);
}

Slab* StagingPool::add(Turn& turn, MemorySource& source, std::size_t bytes, bool pastLimit, std::string& reason) {
  const bool pinned = source.kind() == MemoryKind::kPinned;
  // Counted before it is there: meanwhile the mutex is free, and others must not take the same room.
  const auto count = [&](std::size_t by) {
    stats_.reservedBytes += by;
    if (pinned) stats_.pinnedBytes += by;
    if (pastLimit) stats_.pastLimitBytes += by;
  };
  count(bytes);
  void* data = turn.allocate(source, bytes, reason);
  if (data != nullptr) return slabs_.emplace_back(std::make_unique<Slab>(source, data, bytes, pastLimit)).get();
  count(std::size_t{0} - bytes);
  return nullptr;
}

MemorySource& StagingPool::pinnedFor(int device) { return pinned_.try_emplace(device, driver_, device).first->second; }

std::size_t StagingPool::limit() const {
  if (claims_.empty()) return limitBytes_;
  const auto smaller = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(claims_.begin(), claims_.end(), smaller)->second;
}

std::size_t StagingPool::room() const {
  const std::size_t kept = stats_.reservedBytes - stats_.pastLimitBytes;
  return limit() > kept ? limit() - kept : 0;
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
  drop(isUnusedPastLimit);
}

std::size_t StagingPool::drop(bool (*which)(const Slab&)) {
  std::size_t bytes = 0;
  const auto dropped =
      std::stable_partition(slabs_.begin(), slabs_.end(), [&](const auto& slab) { return !which(*slab); });
  for (auto slab = dropped; slab != slabs_.end(); ++slab) {
    bytes += (*slab)->bytes();
    if ((*slab)->source().kind() == MemoryKind::kPinned) stats_.pinnedBytes -= (*slab)->bytes();
    if ((*slab)->pastLimit()) stats_.pastLimitBytes -= (*slab)->bytes();
    dropped_.push_back(std::move(*slab));
  }
  slabs_.erase(dropped, slabs_.end());
  stats_.reservedBytes -= bytes;
  return bytes;
}

StagingPool& processPool() {
  static StagingPool* pool = new StagingPool(*new PlainMemory(), processCudaDriver());
  return *pool;
}

}  // namespace zerohop
