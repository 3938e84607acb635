// NVIDIA's driver library, found at run time: no toolkit to build, no link dependency, and its absence is a value.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace zerohop {

struct CudaDevice {
  int ordinal;
  std::string name;
  std::size_t totalBytes;
};

struct CudaProbe {
  bool available = false;
  std::string reason;  // why it is not available; empty otherwise
  int driverVersion = 0;
  std::vector<CudaDevice> devices;
};

// Every method may be called from any thread. Nothing is opened before the first of them.
class CudaDriver {
 public:
  // A path replaces the places where the driver is looked for, so that tests can bring their own.
  explicit CudaDriver(std::string path = {});

  // Opens and initialises the driver once; makes no context, so it costs no GPU memory.
  const CudaProbe& probe();

  // Page-locked for every context of the process, by way of the device's primary context, the one that ONNX Runtime
  // uses too; the first call for a device retains it. nullptr = refused, with the reason.
  void* allocateHost(std::size_t bytes, int ordinal, std::string& reason);
  void releaseHost(void* data, int ordinal);

 private:
  using Context = void*;
  struct Api {
    int (*init)(unsigned);
    int (*driverGetVersion)(int*);
    int (*deviceGetCount)(int*);
    int (*deviceGet)(int*, int);
    int (*deviceGetName)(char*, int, int);
    int (*deviceTotalMem)(std::size_t*, int);
    int (*getErrorName)(int, const char**);
    int (*primaryContextRetain)(Context*, int);
    int (*contextPush)(Context);
    int (*contextPop)(Context*);
    int (*hostAlloc)(void**, std::size_t, unsigned);
    int (*hostFree)(void*);
  };
  class CurrentContext;
  // A device's primary context, or why it cannot be had.
  struct Retained {
    Context context = nullptr;
    std::string failure;
  };

  bool open();
  bool bind(void* library);
  bool initialise();
  Retained retain(int ordinal);
  std::string failure(const char* call, int result) const;

  const std::string path_;
  std::once_flag probed_;
  Api api_{};
  CudaProbe probe_;
  std::mutex mutex_;
  std::map<int, Retained> retained_;  // by ordinal; guarded by mutex_
};

// The process's one driver; never destroyed, since the driver may be shut down before our statics are.
CudaDriver& processCudaDriver();

}  // namespace zerohop
