// Where the staging pool's slabs come from.
#pragma once

#include <cstddef>
#include <string>

#include "cuda_driver.h"

namespace zerohop {

enum class MemoryKind { kPlain, kPinned };

// Gives whole slabs, aligned to a page at least. Called by any thread: what takes long is done outside of locks.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // nullptr = refused, with the reason.
  virtual void* allocate(std::size_t bytes, std::string& reason) = 0;
  virtual void release(void* data, std::size_t bytes) = 0;
  virtual MemoryKind kind() const = 0;
};

// Pages of the operating system's, committed when they are first touched: a reserved slab costs no memory yet.
class PlainMemory final : public MemorySource {
 public:
  void* allocate(std::size_t bytes, std::string& reason) override;
  void release(void* data, std::size_t bytes) override;
  MemoryKind kind() const override { return MemoryKind::kPlain; }
};

// Page-locked by the CUDA driver for one device, so that the GPU copies from and to it directly.
class PinnedMemory final : public MemorySource {
 public:
  PinnedMemory(CudaDriver& driver, int device) : driver_(driver), device_(device) {}
  void* allocate(std::size_t bytes, std::string& reason) override {
    return driver_.allocateHost(bytes, device_, reason);
  }
  void release(void* data, std::size_t) override { driver_.releaseHost(data, device_); }
  MemoryKind kind() const override { return MemoryKind::kPinned; }

 private:
  CudaDriver& driver_;
  const int device_;
};

}  // namespace zerohop
