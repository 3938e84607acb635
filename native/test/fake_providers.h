// The execution providers of the stand-in for ONNX Runtime; a part of it that is a file of its own.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fake_types.h"

namespace zerohop::ort {

struct OrtCudaOptions {
  std::string text;
};
struct OrtTensorRtOptions {
  std::string text;
};
struct OrtHardwareDevice {
  HardwareKind kind;
};
struct OrtEpDevice {
  std::string name;
  OrtHardwareDevice hardware;
};

}  // namespace zerohop::ort

namespace fake {

using namespace zerohop::ort;

OrtStatus* failure(const std::string& message);

// Options as text.
std::string join(const char* const* keys, const char* const* values, std::size_t count) {
  std::string text;
  for (std::size_t index = 0; index < count; ++index) text += std::string(" ") + keys[index] + '=' + values[index];
  return text;
}
OrtStatus* SessionOptionsAppendExecutionProvider(OrtSessionOptions*, const char* name, const char* const* keys, const char* const* values,
                                                 std::size_t count) {
  fakeOrtCounts.set += name + join(keys, values, count);
  return nullptr;
}
OrtStatus* SessionOptionsAppendExecutionProvider_CUDA_V2(OrtSessionOptions*, const OrtCudaOptions* options) {
  fakeOrtCounts.set += "CUDA" + options->text;
  return nullptr;
}
OrtStatus* CreateCUDAProviderOptions(OrtCudaOptions** out) {
  *out = new OrtCudaOptions;
  return nullptr;
}
// As ONNX Runtime does, it refuses what cannot be a value of an option, and says of which; here with all that it was given.
OrtStatus* UpdateCUDAProviderOptions(OrtCudaOptions* options, const char* const* keys, const char* const* values, std::size_t count) {
  options->text = join(keys, values, count);
  for (std::size_t index = 0; index < count; ++index) {
    if (std::strcmp(values[index], "wrong") != 0) continue;
    return failure(std::string("Failed to parse provider option \"") + keys[index] + "\" of" + options->text);
  }
  return nullptr;
}
void ReleaseCUDAProviderOptions(OrtCudaOptions* options) { delete options; }
OrtStatus* SessionOptionsAppendExecutionProvider_TensorRT_V2(OrtSessionOptions*, const OrtTensorRtOptions* options) {
  fakeOrtCounts.set += "TensorRT" + options->text;
  return nullptr;
}
OrtStatus* CreateTensorRTProviderOptions(OrtTensorRtOptions** out) {
  *out = new OrtTensorRtOptions;
  return nullptr;
}
OrtStatus* UpdateTensorRTProviderOptions(OrtTensorRtOptions* options, const char* const* keys, const char* const* values, std::size_t count) {
  options->text = join(keys, values, count);
  return nullptr;
}
void ReleaseTensorRTProviderOptions(OrtTensorRtOptions* options) { delete options; }
OrtStatus* AddExternalInitializersFromFilesInMemory(OrtSessionOptions*, const OrtPathChar* const* names, char* const* contents,
                                                    const std::size_t* lengths, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index) {
    fakeOrtCounts.set += std::string(names[index]) + ':' + std::string(contents[index], lengths[index]) + ' ';
  }
  return nullptr;
}

OrtStatus* GetAvailableProviders(char*** names, int* count) {
  *names = new char*[2]{strdup("CPUExecutionProvider"), strdup("CUDAExecutionProvider")};
  *count = 2;
  return nullptr;
}
OrtStatus* ReleaseAvailableProviders(char** names, int count) {
  while (count > 0) std::free(names[--count]);
  delete[] names;
  return nullptr;
}

// The device that is built in, and those of plugins: of one called `two-devices` two, of any other that is not missing none.
std::vector<const OrtEpDevice*>& devices() {
  static const OrtEpDevice cpu{"CPUExecutionProvider", {HardwareKind::kCpu}};
  static std::vector<const OrtEpDevice*> all{&cpu};
  return all;
}
OrtStatus* RegisterExecutionProviderLibrary(OrtEnv*, const char* name, const OrtPathChar* path) {
  static const OrtEpDevice first{"FirstExecutionProvider", {HardwareKind::kCpu}}, second{"SecondExecutionProvider", {HardwareKind::kNpu}};
  const std::string library = path;
  if (library.find("missing") != std::string::npos) return failure(library + ": cannot open shared object file");
  fakeOrtCounts.set += std::string("registered ") + name + ' ';
  if (library.find("two-devices") != std::string::npos) devices().insert(devices().end(), {&first, &second});
  return nullptr;
}
OrtStatus* GetEpDevices(const OrtEnv*, const OrtEpDevice* const** out, std::size_t* count) {
  *out = devices().data();
  *count = devices().size();
  return nullptr;
}
OrtStatus* SessionOptionsAppendExecutionProvider_V2(OrtSessionOptions*, OrtEnv*, const OrtEpDevice* const* chosen, std::size_t count,
                                                    const char* const* keys, const char* const* values, std::size_t entries) {
  for (std::size_t index = 0; index < count; ++index) fakeOrtCounts.set += chosen[index]->name;
  fakeOrtCounts.set += join(keys, values, entries);
  return nullptr;
}
HardwareKind HardwareDevice_Type(const OrtHardwareDevice* device) { return device->kind; }
const char* HardwareDevice_Vendor(const OrtHardwareDevice*) { return "a vendor"; }
const char* EpDevice_EpName(const OrtEpDevice* device) { return device->name.c_str(); }
const char* EpDevice_EpVendor(const OrtEpDevice*) { return nullptr; }
const OrtKeyValuePairs* EpDevice_EpMetadata(const OrtEpDevice*) {
  static const OrtKeyValuePairs pairs;
  return &pairs;
}
const OrtHardwareDevice* EpDevice_Device(const OrtEpDevice* device) { return &device->hardware; }
void GetKeyValuePairs(const OrtKeyValuePairs*, const char* const** keys, const char* const** values, std::size_t* count) {
  static const char* const names[]{"version"};
  static const char* const texts[]{"1"};
  *keys = names;
  *values = texts;
  *count = 1;
}

}  // namespace fake
