// A provider plugin that hands everything on to another (PLUGIN_PATH), and tells it that every device is Intel's: OpenVINO
// computes on any x64 processor, but its plugin offers itself on Intel's alone. So its tests run on others, too. With DEVICE_KIND
// devices are of that kind: WebGPU's plugin offers itself where there is a GPU, and Vulkan in software is none.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Places in ONNX Runtime's table, and more of them than any version has.
enum { kKind = 307, kVendorId = 308, kVendor = 309, kEntries = 512 };

struct ApiBase {
  const void* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)(void);
};

static const struct ApiBase* theirs;
static const void* table[kEntries];

static uint32_t vendorId(const void* device) {
  (void)device;
  return 0x8086;
}

static const char* vendor(const void* device) {
  (void)device;
  return "Intel";
}

#ifdef DEVICE_KIND
static int kind(const void* device) {
  (void)device;
  return DEVICE_KIND;
}
#endif

static const void* getApi(uint32_t version) {
  const void* api = theirs->GetApi(version);
  if (api == NULL) return NULL;
  memcpy(table, api, sizeof table);  // past its end there is more of the library
  table[kVendorId] = (const void*)vendorId;
  table[kVendor] = (const void*)vendor;
#ifdef DEVICE_KIND
  table[kKind] = (const void*)kind;
#endif
  return table;
}

static const char* getVersion(void) { return theirs->GetVersionString(); }

static void* entry(const char* name) {
  void* library = dlopen(PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) abort();
  return dlsym(library, name);
}

void* CreateEpFactories(const char* name, const struct ApiBase* base, const void* logger, void** factories, size_t most, size_t* count) {
  static struct ApiBase ours;
  theirs = base;
  ours.GetApi = getApi;
  ours.GetVersionString = getVersion;
  void* (*create)(const char*, const struct ApiBase*, const void*, void**, size_t, size_t*) = entry("CreateEpFactories");
  return create(name, &ours, logger, factories, most, count);
}

void* ReleaseEpFactory(void* factory) {
  void* (*release)(void*) = entry("ReleaseEpFactory");
  return release(factory);
}
