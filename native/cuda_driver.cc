#include "cuda_driver.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "dynamic_library.h"

namespace zerohop {

namespace {

constexpr int kSuccess = 0;
constexpr unsigned kHostAllocPortable = 1;

// Never the unversioned libcuda.so: that is the toolkit's stub.
std::vector<std::string> driverPaths() {
#ifdef _WIN32
  return {"nvcuda.dll"};
#elif defined(__linux__)
  return {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
#else
  return {};
#endif
}

}  // namespace

// The context is current per thread and is not left so: ONNX Runtime, on the same threads, chooses its own.
class CudaDriver::CurrentContext {
 public:
  CurrentContext(const Api& api, Context context) : api_(api), result_(api.contextPush(context)) {}
  ~CurrentContext() {
    Context popped;
    if (result_ == kSuccess) api_.contextPop(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  int result() const { return result_; }

 private:
  const Api& api_;
  const int result_;
};

CudaDriver::CudaDriver(std::string path) : path_(std::move(path)) {}

const CudaProbe& CudaDriver::probe() {
  std::call_once(probed_, [this] { probe_.available = open() && initialise(); });
  return probe_;
}

void* CudaDriver::allocateHost(std::size_t bytes, int ordinal, std::string& reason) {
  if (!probe().available) {
    reason = probe_.reason;
    return nullptr;
  }
  const Retained retained = retain(ordinal);
  if (!retained.failure.empty()) {
    reason = retained.failure;
    return nullptr;
  }
  CurrentContext current(api_, retained.context);
  if (current.result() != kSuccess) {
    reason = failure("cuCtxPushCurrent", current.result());
    return nullptr;
  }
  void* data = nullptr;
  int result = api_.hostAlloc(&data, bytes, kHostAllocPortable);
  if (result == kSuccess) return data;
  reason = failure("cuMemHostAlloc", result);
  return nullptr;
}

void CudaDriver::releaseHost(void* data, int ordinal) {
  // A refused push or free means that the driver is shutting down, and has taken the memory with it.
  CurrentContext current(api_, retain(ordinal).context);
  if (current.result() == kSuccess) api_.hostFree(data);
}

CudaDriver::Retained CudaDriver::retain(int ordinal) {
  std::lock_guard lock(mutex_);
  const auto [entry, first] = retained_.try_emplace(ordinal);
  Retained& retained = entry->second;
  if (!first) return retained;
  const bool known = std::any_of(probe_.devices.begin(), probe_.devices.end(),
                                 [&](const CudaDevice& device) { return device.ordinal == ordinal; });
  if (!known) {
    retained.failure = "the CUDA driver sees no device " + std::to_string(ordinal);
    return retained;
  }
  int device = 0;
  const char* call = "cuDeviceGet";
  int result = api_.deviceGet(&device, ordinal);
  if (result == kSuccess) {
    call = "cuDevicePrimaryCtxRetain";
    result = api_.primaryContextRetain(&retained.context, device);
  }
  if (result != kSuccess) retained.failure = failure(call, result);
  return retained;
}

bool CudaDriver::open() {
  for (const std::string& path : path_.empty() ? driverPaths() : std::vector<std::string>{path_}) {
    std::string error;
    if (void* library = openLibrary(path, error)) return bind(library);
    if (!probe_.reason.empty()) probe_.reason += "; ";
    probe_.reason += error;
  }
  if (probe_.reason.empty()) probe_.reason = "there is no CUDA driver for this platform";
  return false;
}

bool CudaDriver::bind(void* library) {
  probe_.reason.clear();
  auto find = [&](auto& function, const char* name) {
    void* symbol = findSymbol(library, name);
    if (symbol == nullptr && probe_.reason.empty()) probe_.reason = std::string("the CUDA driver has no ") + name;
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
  };
  find(api_.init, "cuInit");
  find(api_.driverGetVersion, "cuDriverGetVersion");
  find(api_.deviceGetCount, "cuDeviceGetCount");
  find(api_.deviceGet, "cuDeviceGet");
  find(api_.deviceGetName, "cuDeviceGetName");
  find(api_.deviceTotalMem, "cuDeviceTotalMem_v2");
  find(api_.getErrorName, "cuGetErrorName");
  find(api_.primaryContextRetain, "cuDevicePrimaryCtxRetain");
  find(api_.contextPush, "cuCtxPushCurrent_v2");
  find(api_.contextPop, "cuCtxPopCurrent_v2");
  find(api_.hostAlloc, "cuMemHostAlloc");
  find(api_.hostFree, "cuMemFreeHost");
  return probe_.reason.empty();
}

bool CudaDriver::initialise() {
  int count = 0;
  int result = api_.init(0);
  const char* call = "cuInit";
  if (result == kSuccess) {
    api_.driverGetVersion(&probe_.driverVersion);
    result = api_.deviceGetCount(&count);
    call = "cuDeviceGetCount";
  }
  if (result != kSuccess) {
    probe_.reason = failure(call, result);
    return false;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device;
    char name[256] = "";
    std::size_t totalBytes = 0;
    if (api_.deviceGet(&device, ordinal) != kSuccess) continue;
    api_.deviceGetName(name, sizeof name, device);
    api_.deviceTotalMem(&totalBytes, device);
    probe_.devices.push_back({ordinal, name, totalBytes});
  }
  if (probe_.devices.empty()) probe_.reason = "the CUDA driver sees no device";
  return !probe_.devices.empty();
}

std::string CudaDriver::failure(const char* call, int result) const {
  const char* name = nullptr;
  if (api_.getErrorName(result, &name) != kSuccess || name == nullptr) name = "unknown error";
  return std::string(call) + " failed: " + name + " (" + std::to_string(result) + ")";
}

CudaDriver& processCudaDriver() {
  static CudaDriver* driver = new CudaDriver();
  return *driver;
}

}  // namespace zerohop
