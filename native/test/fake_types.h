// What the stand-in for ONNX Runtime is made of.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fake_onnxruntime.h"
#include "ort/ort_api.h"

extern FakeOrtCounts fakeOrtCounts;

namespace zerohop::ort {

struct OrtStatus {
  std::string message;
};
struct OrtEnv {};
struct OrtMemoryInfo {};
struct OrtSequenceInfo {};
struct OrtMapInfo {};
struct OrtOptionalInfo {};
struct OrtSessionOptions {
  std::atomic<bool> cancelled{false};
  int threads = 0;
};
struct OrtRunOptions {
  std::atomic<bool> terminate{false};
  bool shrinks = false;
};
struct OrtSession {
  std::string model;
  std::atomic<int> arenaBytes{0};
  int threads = 0;
};
struct OrtAllocator {
  const OrtSession* session = nullptr;
};
struct OrtKeyValuePairs {
  std::map<std::string, std::string> entries;
};
struct Data {
  std::vector<float> floats;
  std::vector<std::string> strings;
};
struct OrtValue {
  ElementType type = ElementType::kUndefined;
  std::vector<std::int64_t> dims = {};
  void* bytes = nullptr;
  std::shared_ptr<Data> own = nullptr;
  ValueKind kind = ValueKind::kTensor;
  std::vector<OrtValue> parts = {};  // of a sequence; of a map its keys and values
};
struct OrtTensorInfo {
  ElementType type;
  std::vector<std::int64_t> dims;
  std::vector<const char*> symbols;
};
struct OrtTypeInfo {
  OrtTensorInfo tensor;
  // Of what is no tensor; the parts of the info that are asked for lead back to it.
  ValueKind kind = ValueKind::kTensor;
  ElementType key = ElementType::kUndefined;
  std::shared_ptr<OrtTypeInfo> part = nullptr;
};

}  // namespace zerohop::ort

namespace fake {

using namespace zerohop::ort;

inline OrtEnv env;
inline OrtAllocator allocator;
inline OrtMemoryInfo memory;

inline OrtStatus* failure(const std::string& message) {
  ++fakeOrtCounts.statuses;
  return new OrtStatus{message};
}

inline std::size_t count(const std::vector<std::int64_t>& dims) {
  std::size_t elements = 1;
  for (const std::int64_t dim : dims) elements *= static_cast<std::size_t>(dim);
  return elements;
}

inline OrtValue* make(ElementType type, std::vector<std::int64_t> dims) {
  ++fakeOrtCounts.values;
  auto data = std::make_shared<Data>();
  if (type == ElementType::kString) data->strings.resize(count(dims));
  else data->floats.resize(2 * count(dims));  // room for elements of 64 bits, too
  return new OrtValue{type, std::move(dims), data->floats.data(), data};
}

}  // namespace fake
