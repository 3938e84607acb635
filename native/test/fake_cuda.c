#include "fake_cuda.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, NOT_FOUND = 500, INVALID_CONTEXT = 201 };

struct FakeCudaCounts fakeCudaCounts;
static __thread int depth;  // a context is current per thread, as in the real driver
static __thread char* current;
static char primaries[FAKE_CUDA_MOST_DEVICES];

static int setting(const char* name, int otherwise) {
  const char* value = getenv(name);
  return value == NULL ? otherwise : atoi(value);
}

static void count(int* counter, int by) { __atomic_add_fetch(counter, by, __ATOMIC_SEQ_CST); }

int cuInit(unsigned flags) {
  (void)flags;
  count(&fakeCudaCounts.inits, 1);
  return setting("FAKE_CUDA_INIT", 0);
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuDeviceGetCount(int* devices) {
  *devices = setting("FAKE_CUDA_DEVICES", 1);
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, (size_t)length, "Fake GPU %d", device);
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)8 << 30;
  return 0;
}

int cuGetErrorName(int error, const char** name) {
  *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
  return *name == NULL ? NOT_FOUND : 0;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  count(&fakeCudaCounts.retains, 1);
  *context = &primaries[device];
  return setting("FAKE_CUDA_RETAIN", 0);
}

int cuCtxPushCurrent_v2(void* context) {
  if ((char*)context < primaries || (char*)context >= primaries + FAKE_CUDA_MOST_DEVICES) return INVALID_CONTEXT;
  current = context;
  ++depth;
  count(&fakeCudaCounts.contexts, 1);
  return 0;
}

int cuCtxPopCurrent_v2(void** context) {
  if (depth == 0) return INVALID_CONTEXT;
  --depth;
  count(&fakeCudaCounts.contexts, -1);
  *context = current;
  return 0;
}

int cuMemHostAlloc(void** data, size_t bytes, unsigned flags) {
  int result = setting("FAKE_CUDA_ALLOC", 0);
  if (depth == 0) return INVALID_CONTEXT;
  if (result != 0) return result;
  if (flags != 1 || posix_memalign(data, 4096, bytes) != 0) return OUT_OF_MEMORY;
  count(&fakeCudaCounts.allocs, 1);
  count(&fakeCudaCounts.allocsOn[current - primaries], 1);
  return 0;
}

int cuMemFreeHost(void* data) {
  if (depth == 0) return INVALID_CONTEXT;
  count(&fakeCudaCounts.frees, 1);
  free(data);
  return 0;
}

// Memory of the device is memory of the process, and a copy is done when its call returns.
int cuMemAlloc_v2(unsigned long long* data, size_t bytes) {
  if (depth == 0) return INVALID_CONTEXT;
  void* memory = malloc(bytes);
  *data = (uintptr_t)memory;
  return memory == NULL ? OUT_OF_MEMORY : 0;
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  if (depth == 0) return INVALID_CONTEXT;
  memcpy((void*)(uintptr_t)to, from, bytes);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  (void)stream;
  if (depth == 0) return INVALID_CONTEXT;
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return 0;
}

int cuStreamSynchronize(void* stream) {
  (void)stream;
  return depth == 0 ? INVALID_CONTEXT : 0;
}
