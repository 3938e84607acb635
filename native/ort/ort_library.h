// ONNX Runtime as this process uses it: the library that onnxruntime-node ships, its table of functions and its
// environment. Opened once and held for ever: its threads may outlive whoever asked for it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ort_api.h"

namespace zerohop::ort {

// What ONNX Runtime says when it refuses something.
class OrtError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class OrtLibrary {
 public:
  // The library at `path`, opened at the first call. Throws OrtError with the reason: it cannot be loaded, it is no
  // ONNX Runtime, it is too old, or the process has another one already.
  static const OrtLibrary& open(const std::string& path);

  // The one that was opened.
  static const OrtLibrary& opened();

  const OrtApi api;
  const std::string path;
  const std::string version;
  OrtEnv* env = nullptr;
  OrtMemoryInfo* cpuMemory = nullptr;
  OrtAllocator* allocator = nullptr;

  // Throws OrtError, and releases the status, unless all is well (nullptr).
  void check(OrtStatus* status) const;

 private:
  OrtLibrary(const OrtApi& api, std::string path, std::string version);
};

// Owns what ONNX Runtime made.
template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

// What `create`, given the place for it, makes.
template <typename T, typename Create>
Owned<T> own(const OrtLibrary& library, void (*release)(T*), Create create) {
  T* made = nullptr;
  library.check(create(&made));
  return Owned<T>(made, release);
}

}  // namespace zerohop::ort
