// The stand-in's arenas: a session takes 64 bytes from the system with each run, and keeps 16 when it is shrunk.
#pragma once

#include <atomic>
#include <cstdlib>
#include <map>
#include <string>

#include "fake_onnxruntime.h"
#include "ort/ort_api.h"

extern FakeOrtCounts fakeOrtCounts;

namespace zerohop::ort {

struct OrtSession {
  std::string model;
  std::atomic<int> arenaBytes{0};
};
struct OrtRunOptions {
  std::atomic<bool> terminate{false};
  bool shrinks = false;
};
struct OrtAllocator {
  const OrtSession* session = nullptr;
};
struct OrtKeyValuePairs {
  std::map<std::string, std::string> entries;
};

}  // namespace zerohop::ort

namespace fake {

using namespace zerohop::ort;

OrtStatus* CreateAllocator(const OrtSession* session, const OrtMemoryInfo*, OrtAllocator** out) {
  ++fakeOrtCounts.allocators;
  *out = new OrtAllocator{session};
  return nullptr;
}
void ReleaseAllocator(OrtAllocator* allocator) {
  --fakeOrtCounts.allocators;
  delete allocator;
}
OrtStatus* AllocatorAlloc(OrtAllocator*, std::size_t bytes, void** out) {
  *out = std::malloc(bytes);
  return nullptr;
}
OrtStatus* AllocatorGetStats(const OrtAllocator* allocator, OrtKeyValuePairs** out) {
  ++fakeOrtCounts.allocators;
  *out = new OrtKeyValuePairs;
  if (allocator->session->model != "no-arena") {
    (*out)->entries = {{"TotalAllocated", std::to_string(allocator->session->arenaBytes)}, {"InUse", "8"}, {"MaxInUse", "40"}};
  }
  return nullptr;
}
void ReleaseKeyValuePairs(OrtKeyValuePairs* pairs) {
  --fakeOrtCounts.allocators;
  delete pairs;
}
const char* GetKeyValue(const OrtKeyValuePairs* pairs, const char* key) {
  const auto found = pairs->entries.find(key);
  return found == pairs->entries.end() ? nullptr : found->second.c_str();
}
OrtStatus* AddRunConfigEntry(OrtRunOptions* options, const char* key, const char* value) {
  options->shrinks = std::string(key) == "memory.enable_memory_arena_shrinkage" && std::string(value) == "cpu:0";
  return nullptr;
}

}  // namespace fake
