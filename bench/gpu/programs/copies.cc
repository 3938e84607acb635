// How fast a CUDA device copies from and to memory of the staging pool, and from and to a large block that its driver
// page-locks, which is what the link can do: copies <device> <seconds> <link bytes> <slot bytes>...
// It is made of the pool's own sources, without Node, and prints one line of JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "dynamic_library.h"
#include "staging_pool.h"

namespace {

using Clock = std::chrono::steady_clock;

// The entries that copy; the product has no use for them, ONNX Runtime copies.
struct Driver {
  using DevicePointer = unsigned long long;
  int (*deviceGet)(int*, int);
  int (*primaryContextRetain)(void**, int);
  int (*contextPush)(void*);
  int (*hostAlloc)(void**, std::size_t, unsigned);
  int (*deviceAlloc)(DevicePointer*, std::size_t);
  int (*toDevice)(DevicePointer, const void*, std::size_t, void*);
  int (*fromDevice)(void*, DevicePointer, std::size_t, void*);
  int (*synchronize)(void*);

  Driver() {
#ifdef _WIN32
    const char* path = "nvcuda.dll";
#else
    const char* path = "libcuda.so.1";
#endif
    std::string error;
    void* library = zerohop::openLibrary(path, error);
    if (library == nullptr) throw std::runtime_error(error);
    const auto find = [&](auto& function, const char* name) {
      void* symbol = zerohop::findSymbol(library, name);
      if (symbol == nullptr) throw std::runtime_error(std::string("the CUDA driver has no ") + name);
      function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
    };
    find(deviceGet, "cuDeviceGet");
    find(primaryContextRetain, "cuDevicePrimaryCtxRetain");
    find(contextPush, "cuCtxPushCurrent_v2");
    find(hostAlloc, "cuMemHostAlloc");
    find(deviceAlloc, "cuMemAlloc_v2");
    find(toDevice, "cuMemcpyHtoDAsync_v2");
    find(fromDevice, "cuMemcpyDtoHAsync_v2");
    find(synchronize, "cuStreamSynchronize");
  }
};

void check(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + " failed with " + std::to_string(result));
}

// Bytes per nanosecond, which is GB/s. Copies are queued together, as far as they fill the link for a while.
template <typename Copy>
double rate(const Driver& driver, std::size_t bytes, double seconds, Copy copy) {
  constexpr std::size_t kQueuedBytes = std::size_t{256} << 20;
  const std::size_t queued = bytes < kQueuedBytes ? kQueuedBytes / bytes : 1;
  const auto round = [&] {
    for (std::size_t index = 0; index < queued; ++index) check(copy(), "a copy");
    check(driver.synchronize(nullptr), "cuStreamSynchronize");
  };
  round();
  const auto start = Clock::now();
  std::size_t copied = 0;
  std::chrono::duration<double> elapsed{};
  do {
    round();
    copied += queued * bytes;
    elapsed = Clock::now() - start;
  } while (elapsed.count() < seconds);
  return static_cast<double>(copied) / elapsed.count() / 1e9;
}

// What goes to the device comes back as it was.
bool comesBack(const Driver& driver, unsigned char* host, Driver::DevicePointer device, std::size_t bytes) {
  const auto at = [&](std::size_t index) { return static_cast<unsigned char>((index + bytes) % 251); };
  for (std::size_t index = 0; index < bytes; ++index) host[index] = at(index);
  check(driver.toDevice(device, host, bytes, nullptr), "a copy");
  check(driver.synchronize(nullptr), "cuStreamSynchronize");
  std::memset(host, 0, bytes);
  check(driver.fromDevice(host, device, bytes, nullptr), "a copy");
  check(driver.synchronize(nullptr), "cuStreamSynchronize");
  for (std::size_t index = 0; index < bytes; ++index) {
    if (host[index] != at(index)) return false;
  }
  return true;
}

void print(const Driver& driver, const char* memory, void* host, Driver::DevicePointer device, std::size_t bytes, double seconds) {
  const bool right = comesBack(driver, static_cast<unsigned char*>(host), device, bytes);
  const double to = rate(driver, bytes, seconds, [&] { return driver.toDevice(device, host, bytes, nullptr); });
  const double from = rate(driver, bytes, seconds, [&] { return driver.fromDevice(host, device, bytes, nullptr); });
  std::printf("{\"memory\":\"%s\",\"bytes\":%zu,\"toDevice\":%.3f,\"fromDevice\":%.3f,\"right\":%s}", memory, bytes, to, from,
              right ? "true" : "false");
}

void measure(int ordinal, double seconds, std::size_t linkBytes, int sizes, char** slotBytes) {
  const zerohop::CudaProbe& probe = zerohop::processCudaDriver().probe();
  if (!probe.available) throw std::runtime_error(probe.reason);
  const Driver driver;
  int handle = 0;
  void *context = nullptr, *block = nullptr;
  Driver::DevicePointer device = 0;
  check(driver.deviceGet(&handle, ordinal), "cuDeviceGet");
  check(driver.primaryContextRetain(&context, handle), "cuDevicePrimaryCtxRetain");
  check(driver.contextPush(context), "cuCtxPushCurrent");
  check(driver.deviceAlloc(&device, linkBytes), "cuMemAlloc");
  check(driver.hostAlloc(&block, linkBytes, 1), "cuMemHostAlloc");

  std::printf("[");
  print(driver, "link", block, device, linkBytes, seconds);
  zerohop::StagingPool& pool = zerohop::processPool();
  for (int index = 0; index < sizes; ++index) {
    const std::size_t bytes = std::strtoull(slotBytes[index], nullptr, 10);
    if (bytes == 0 || bytes > linkBytes) throw std::runtime_error("a slot has 1 byte at least, and no more than the block of the link");
    for (const int where : {ordinal, zerohop::kPlainMemory}) {
      const auto lease = pool.acquire(bytes, where);
      if (!lease) throw std::runtime_error("the staging pool has no room");
      if (where == ordinal && lease->kind != zerohop::MemoryKind::kPinned) throw std::runtime_error(lease->reason);
      std::printf(",");
      print(driver, where == ordinal ? "page-locked" : "pageable", pool.refer(lease->id)->data, device, bytes, seconds);
    }
  }
  std::printf("]\n");
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count < 5) throw std::runtime_error("expected: copies <device> <seconds> <link bytes> <slot bytes>...");
    measure(std::atoi(arguments[1]), std::atof(arguments[2]), std::strtoull(arguments[3], nullptr, 10), count - 4, arguments + 4);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
