#include "ort_library.h"

#include <mutex>

#include "dynamic_library.h"
#include "run_count.h"

namespace zerohop::ort {

namespace {

struct ApiBase {
  const void* (*GetApi)(std::uint32_t version);
  const char* (*GetVersionString)();
};

std::mutex openMutex;
const OrtLibrary* library = nullptr;  // leaked, as its environment is

const ApiBase& apiBaseOf(const std::string& path) {
  std::string error;
  void* handle = openLibrary(path, error);
  if (handle == nullptr) throw OrtError(error);
  using GetApiBase = const ApiBase* (*)();
  const auto getApiBase = reinterpret_cast<GetApiBase>(findSymbol(handle, "OrtGetApiBase"));
  if (getApiBase == nullptr) throw OrtError(path + " has no OrtGetApiBase: it is not ONNX Runtime");
  return *getApiBase();
}

}  // namespace

const OrtLibrary& OrtLibrary::open(const std::string& path) {
  const std::lock_guard lock(openMutex);
  if (library != nullptr) {
    if (library->path == path) return *library;
    throw OrtError("this process uses the ONNX Runtime " + library->version + " of " + library->path + " already");
  }
  const ApiBase& base = apiBaseOf(path);
  const std::string version = base.GetVersionString();
  const void* table = base.GetApi(kOrtApiVersion);
  if (table == nullptr) {
    throw OrtError("ONNX Runtime " + version + " is older than 1." + std::to_string(kOrtApiVersion));
  }
  library = new OrtLibrary(OrtApi::from(table), path, version);
  // After the destructors of the library itself, so that it is done before them.
  leaveWithRunning();
  return *library;
}

const OrtLibrary& OrtLibrary::opened() {
  const std::lock_guard lock(openMutex);
  if (library == nullptr) throw OrtError("ONNX Runtime has not been opened");
  return *library;
}

OrtLibrary::OrtLibrary(const OrtApi& table, std::string from, std::string itsVersion)
    : api(table), path(std::move(from)), version(std::move(itsVersion)) {
  check(api.CreateEnv(kLogFatal, "zerohop", &env));
  constexpr int kDeviceAllocator = 0, kDefaultMemory = 0;
  check(api.CreateCpuMemoryInfo(kDeviceAllocator, kDefaultMemory, &cpuMemory));
  check(api.GetAllocatorWithDefaultOptions(&allocator));
}

void OrtLibrary::check(OrtStatus* status) const {
  if (status == nullptr) return;
  const std::string message = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  throw OrtError(message);
}

}  // namespace zerohop::ort
