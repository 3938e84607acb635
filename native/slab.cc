#include "slab.h"

#include <cstdint>
#include <iterator>

#include "check.h"

namespace zerohop {

Slab::Slab(MemorySource& source, void* data, std::size_t bytes, bool pastLimit)
    : source_(source), data_(static_cast<std::byte*>(data)), bytes_(bytes), pastLimit_(pastLimit), free_{{0, bytes}} {
  ZEROHOP_CHECK(data != nullptr && reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0);
}

std::byte* Slab::take(std::size_t bytes, std::size_t alignment) {
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    const auto [offset, length] = *gap;
    const std::size_t start = roundUp(offset, alignment);
    const std::size_t skipped = start - offset;
    if (skipped > length || bytes > length - skipped) continue;
    const std::size_t rest = length - skipped - bytes;
    if (skipped == 0) {
      free_.erase(gap);
    } else {
      gap->second = skipped;
    }
    if (rest > 0) free_.emplace(start + bytes, rest);
    return data_ + start;
  }
  return nullptr;
}

void Slab::give(std::byte* piece, std::size_t bytes) {
  ZEROHOP_CHECK(piece >= data_ && bytes > 0);
  const auto offset = static_cast<std::size_t>(piece - data_);
  ZEROHOP_CHECK(offset < bytes_ && bytes <= bytes_ - offset);
  const auto after = free_.lower_bound(offset);
  ZEROHOP_CHECK(after == free_.end() || offset + bytes <= after->first);
  ZEROHOP_CHECK(after == free_.begin() || std::prev(after)->first + std::prev(after)->second <= offset);
  auto gap = free_.emplace(offset, bytes).first;
  if (auto next = std::next(gap); next != free_.end() && offset + bytes == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap == free_.begin()) return;
  if (auto before = std::prev(gap); before->first + before->second == offset) {
    before->second += gap->second;
    free_.erase(gap);
  }
}

}  // namespace zerohop
