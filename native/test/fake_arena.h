// The stand-in's arenas: a session takes 64 bytes from the system with each run, and keeps 16 when it is shrunk.
#pragma once

#include <cstdlib>
#include <string>

#include "fake_types.h"

namespace fake {

inline OrtStatus* CreateAllocator(const OrtSession* session, const OrtMemoryInfo*, OrtAllocator** out) {
  ++fakeOrtCounts.allocators;
  *out = new OrtAllocator{session};
  return nullptr;
}
inline void ReleaseAllocator(OrtAllocator* allocator) {
  --fakeOrtCounts.allocators;
  delete allocator;
}
inline OrtStatus* AllocatorAlloc(OrtAllocator*, std::size_t bytes, void** out) {
  *out = std::malloc(bytes);
  return nullptr;
}
inline OrtStatus* AllocatorGetStats(const OrtAllocator* allocator, OrtKeyValuePairs** out) {
  ++fakeOrtCounts.allocators;
  *out = new OrtKeyValuePairs;
  if (allocator->session->model != "no-arena") {
    (*out)->entries = {{"TotalAllocated", std::to_string(allocator->session->arenaBytes)}, {"InUse", "8"}, {"MaxInUse", "40"}};
  }
  return nullptr;
}
inline void ReleaseKeyValuePairs(OrtKeyValuePairs* pairs) {
  --fakeOrtCounts.allocators;
  delete pairs;
}
inline const char* GetKeyValue(const OrtKeyValuePairs* pairs, const char* key) {
  const auto found = pairs->entries.find(key);
  return found == pairs->entries.end() ? nullptr : found->second.c_str();
}
inline OrtStatus* AddRunConfigEntry(OrtRunOptions* options, const char* key, const char* value) {
  fakeOrtCounts.set += std::string(key) + '=' + value + ' ';
  options->shrinks |= std::string(key) == "memory.enable_memory_arena_shrinkage" && std::string(value) == "cpu:0";
  return nullptr;
}

}  // namespace fake
