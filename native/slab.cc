#include "slab.h"

#include <cassert>
#include <cstdint>
#include <iterator>

namespace zerohop {

Slab::Slab(MemorySource& source, void* data, std::size_t bytes)
    : source_(source), data_(static_cast<std::byte*>(data)), bytes_(bytes), free_{{0, bytes}} {
  assert(reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0);
}

std::byte* Slab::take(std::size_t bytes, std::size_t alignment) {
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    const auto [offset, length] = *gap;
    const std::size_t start = roundUp(offset, alignment);
    const std::size_t skipped = start - offset;
    if (skipped + bytes > length) continue;
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
  const auto offset = static_cast<std::size_t>(piece - data_);
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
