// One block of a memory source, handed out in aligned pieces: first fit over a free list kept in address order.
#pragma once

#include <cstddef>
#include <map>

#include "memory_source.h"

namespace zerohop {

constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t roundUp(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Not thread-safe; the pool's mutex guards it.
class Slab {
 public:
  // `pastLimit`: made for one slot only, and to be freed with it.
  Slab(MemorySource& source, void* data, std::size_t bytes, bool pastLimit = false);
  ~Slab() { source_.release(data_, bytes_); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // nullptr where no gap is wide enough. `alignment` is at most a page.
  std::byte* take(std::size_t bytes, std::size_t alignment);
  void give(std::byte* piece, std::size_t bytes);

  const MemorySource& source() const { return source_; }
  std::size_t bytes() const { return bytes_; }
  bool pastLimit() const { return pastLimit_; }
  bool unused() const { return free_.size() == 1 && free_.begin()->second == bytes_; }

 private:
  MemorySource& source_;
  std::byte* const data_;
  const std::size_t bytes_;
  const bool pastLimit_;
  std::map<std::size_t, std::size_t> free_;  // offset -> length; neighbours are always merged
};

}  // namespace zerohop
