// Tensors outside ONNX Runtime's memory: on their way into a run, or out of it to a caller.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ort_library.h"

namespace zerohop::ort {

struct FreeBytes {
  void operator()(void* bytes) const { std::free(bytes); }
};

// A copy of a tensor that belongs to nobody else.
struct TensorCopy {
  ElementType type = ElementType::kUndefined;
  std::vector<std::int64_t> dims;
  std::unique_ptr<void, FreeBytes> bytes;  // by malloc; not of strings
  std::size_t byteLength = 0;
  std::vector<std::string> strings;  // UTF-8
};

// Bytes that `count` elements take; two of 4 bits share one.
std::size_t byteLengthOf(ElementType type, std::size_t count);

// Elements of a tensor of these dimensions.
std::size_t elementCount(const std::vector<std::int64_t>& dims);

// A value over a copy's own bytes, which must outlive it; strings are copied.
Owned<OrtValue> valueOver(const OrtLibrary& library, TensorCopy& copy);

// A value over `bytes`, which must outlive it.
Owned<OrtValue> valueOver(const OrtLibrary& library, void* bytes, ElementType type, const std::vector<std::int64_t>& dims);

// A tensor of a run's results where it lies.
struct TensorView {
  ElementType type = ElementType::kUndefined;
  std::vector<std::int64_t> dims;
  const void* bytes = nullptr;  // nullptr for strings
  std::size_t byteLength = 0;
};

// Throws OrtError for a value that is no tensor.
TensorView viewOf(const OrtLibrary& library, OrtValue* value);

TensorCopy copyOf(const OrtLibrary& library, OrtValue* value, const TensorView& view);

}  // namespace zerohop::ort
