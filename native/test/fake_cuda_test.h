// The tests' end of the fake driver: clean counters and settings for each test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cuda_driver.h"
#include "dynamic_library.h"
#include "fake_cuda.h"

namespace zerohop {

class FakeCudaTest : public testing::Test {
 protected:
  FakeCudaTest() {
    std::string error;
    void* library = openLibrary(FAKE_CUDA_PATH, error);
    counts = static_cast<FakeCudaCounts*>(findSymbol(library, "fakeCudaCounts"));
    *counts = {};
    for (const char* name : {"INIT", "RETAIN", "ALLOC", "DEVICES"}) unsetenv(setting(name).c_str());
  }

  static void fail(const char* call, const char* result) { setenv(setting(call).c_str(), result, 1); }
  static void obey(const char* call) { unsetenv(setting(call).c_str()); }

  CudaDriver driver{FAKE_CUDA_PATH};
  FakeCudaCounts* counts;

 private:
  static std::string setting(const char* name) { return std::string("FAKE_CUDA_") + name; }
};

}  // namespace zerohop
