#include "fake_onnxruntime.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "fake_arena.h"
#include "fake_providers.h"
#include "fake_values.h"

FakeOrtCounts fakeOrtCounts;

namespace fake {

const char* GetErrorMessage(const OrtStatus* status) { return status->message.c_str(); }
void ReleaseStatus(OrtStatus* status) {
  --fakeOrtCounts.statuses;
  delete status;
}
OrtStatus* CreateEnv(int, const char*, OrtEnv** out) {
  *out = &env;
  return nullptr;
}
OrtStatus* open(std::string model, const OrtSessionOptions* options, OrtSession** out) {
  ++fakeOrtCounts.opened;
  model = model.substr(model.find_last_of('/') + 1);
  if (model == "broken") return failure("the model is broken");
  if (model == "few-threads" && options->threads > 2) return failure("there are no more threads");
  if (model == "slow-to-open") std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (model == "never-open") {
    ++fakeOrtCounts.opening;
    while (!options->cancelled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --fakeOrtCounts.opening;
    return failure("the load was cancelled");
  }
  ++fakeOrtCounts.sessions;
  *out = new OrtSession{model, {}};
  (*out)->threads = options == nullptr ? 0 : options->threads;
  return nullptr;
}
OrtStatus* CreateSession(const OrtEnv*, const OrtPathChar* path, const OrtSessionOptions* options, OrtSession** out) {
  return open(path, options, out);
}
OrtStatus* SessionOptionsSetLoadCancellationFlag(OrtSessionOptions* options, bool cancel) {
  options->cancelled = cancel;
  return nullptr;
}
OrtStatus* CreateSessionFromArray(const OrtEnv*, const void* bytes, std::size_t length, const OrtSessionOptions* options,
                                  OrtSession** out) {
  return open(std::string(static_cast<const char*>(bytes), length), options, out);
}
void ReleaseSession(OrtSession* session) {
  if (session == nullptr) return;
  --fakeOrtCounts.sessions;
  delete session;
}

OrtStatus* run(const OrtSession& session, const OrtRunOptions* options, const OrtValue& x, OrtValue*& y) {
  const std::string& model = session.model;
  if (model == "failing") return failure("failed on purpose");
  if (model == "fails-on-many" && session.threads > 2) return failure("Failed to allocate memory");
  if (model == "refuses-on-many" && session.threads > 2) return failure("there is no such index");
  if (model == "nothing") return nullptr;
  if (model == "until-stopped" && options->terminate) return failure("the terminate flag is set");
  if (model == "endless") {
    while (!options->terminate) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return failure("the terminate flag is set");
  }
  if (model == "no-sevens") {
    const float* values = static_cast<const float*>(x.bytes);
    for (std::size_t index = 0; index < count(x.dims); ++index) {
      if (values[index] == 7) return failure("there is a 7");
    }
  }
  if (model == "slow-elsewhere") {
    static const auto first = std::this_thread::get_id();
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::this_thread::get_id() != first && std::chrono::steady_clock::now() < until) {}
  }
  if (model == "in-pairs") {
    static std::atomic<int> come{0};
    const int own = ++come;
    while (own % 2 == 1 && come == own) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (model == "identity") {
    if (y != nullptr) return nullptr;
    ++fakeOrtCounts.values;
    y = new OrtValue(x);
    return nullptr;
  }
  OrtValue made;
  if (runStructured(model, x, made)) {
    ++fakeOrtCounts.values;
    y = new OrtValue(made);
    return nullptr;
  }
  std::vector<std::int64_t> dims = x.dims;
  if (model == "larger") ++dims[0];
  const ElementType type = model == "other-type" ? ElementType::kInt32 : x.type;
  if (y != nullptr && (y->dims != dims || y->type != type)) return failure("OrtValue shape verification failed");
  if (y == nullptr) y = make(type, dims);
  if (type == ElementType::kString) {
    y->own->strings.assign(x.own->strings.rbegin(), x.own->strings.rend());
  } else {
    const float* from = static_cast<const float*>(x.bytes);
    float* to = static_cast<float*>(y->bytes);
    for (std::size_t index = 0; index < count(x.dims); ++index) to[index] = from[index] + 1;
  }
  return nullptr;
}
OrtStatus* Run(OrtSession* session, const OrtRunOptions* options, const char* const* inputNames, const OrtValue* const* inputs,
               std::size_t inputCount, const char* const* outputNames, std::size_t outputCount, OrtValue** outputs) {
  if (inputCount != 1 || outputCount != 1 || std::strcmp(inputNames[0], "x") != 0 || std::strcmp(outputNames[0], "y") != 0) {
    return failure("expected x and y");
  }
  if (options != nullptr && options->shrinks) session->arenaBytes = 16;
  if (options != nullptr && options->shrinks && options->terminate) return failure("the terminate flag is set");
  session->arenaBytes += 64;
  ++fakeOrtCounts.running;
  ++fakeOrtCounts.runs;
  fakeOrtCounts.threads = session->threads;
  OrtStatus* status = run(*session, options, *inputs[0], outputs[0]);
  --fakeOrtCounts.running;
  return status;
}

OrtStatus* CreateSessionOptions(OrtSessionOptions** out) {
  ++fakeOrtCounts.sessionOptions;
  *out = new OrtSessionOptions;
  return nullptr;
}
void ReleaseSessionOptions(OrtSessionOptions* options) {
  --fakeOrtCounts.sessionOptions;
  delete options;
}
OrtStatus* SetOptimizedModelFilePath(OrtSessionOptions*, const OrtPathChar*) { return nullptr; }
OrtStatus* SetSessionExecutionMode(OrtSessionOptions*, int) { return nullptr; }
OrtStatus* EnableProfiling(OrtSessionOptions*, const OrtPathChar*) { return nullptr; }
OrtStatus* EnableMemPattern(OrtSessionOptions*) { return nullptr; }
OrtStatus* DisableMemPattern(OrtSessionOptions*) { return nullptr; }
OrtStatus* EnableCpuMemArena(OrtSessionOptions*) { return nullptr; }
OrtStatus* DisableCpuMemArena(OrtSessionOptions*) { return nullptr; }
OrtStatus* SetSessionLogId(OrtSessionOptions*, const char*) { return nullptr; }
OrtStatus* SetSessionLogVerbosityLevel(OrtSessionOptions*, int) { return nullptr; }
OrtStatus* SetSessionLogSeverityLevel(OrtSessionOptions*, int) { return nullptr; }
OrtStatus* SetSessionGraphOptimizationLevel(OrtSessionOptions*, int) { return nullptr; }
OrtStatus* SetIntraOpNumThreads(OrtSessionOptions* options, int threads) {
  options->threads = threads;
  return nullptr;
}
OrtStatus* SetInterOpNumThreads(OrtSessionOptions*, int) { return nullptr; }
OrtStatus* AddFreeDimensionOverrideByName(OrtSessionOptions*, const char*, std::int64_t) { return nullptr; }
OrtStatus* AddSessionConfigEntry(OrtSessionOptions*, const char*, const char*) { return nullptr; }
OrtStatus* AddFreeDimensionOverride(OrtSessionOptions*, const char* denotation, std::int64_t length) {
  fakeOrtCounts.set += std::string(denotation) + ':' + std::to_string(length) + ' ';
  return nullptr;
}

OrtStatus* SessionGetInputCount(const OrtSession*, std::size_t* out) {
  *out = 1;
  return nullptr;
}
OrtStatus* SessionGetOutputCount(const OrtSession* session, std::size_t* out) { return SessionGetInputCount(session, out); }
OrtStatus* SessionGetOverridableInitializerCount(const OrtSession*, std::size_t* out) {
  *out = 0;
  return nullptr;
}
OrtStatus* typeInfo(const OrtSession* session, bool input, OrtTypeInfo** out) {
  ++fakeOrtCounts.infos;
  if (const auto structured = structuredInfo(session->model, input)) {
    *out = new OrtTypeInfo(*structured);
    return nullptr;
  }
  *out = session->model == "reverse" ? new OrtTypeInfo{{ElementType::kString, {-1}, {"N"}}}
                                     : new OrtTypeInfo{{ElementType::kFloat32, {-1, 4}, {"N", ""}}};
  return nullptr;
}
OrtStatus* SessionGetInputTypeInfo(const OrtSession* session, std::size_t, OrtTypeInfo** out) { return typeInfo(session, true, out); }
OrtStatus* SessionGetOutputTypeInfo(const OrtSession* session, std::size_t, OrtTypeInfo** out) { return typeInfo(session, false, out); }
OrtStatus* SessionGetOverridableInitializerTypeInfo(const OrtSession* session, std::size_t, OrtTypeInfo** out) { return typeInfo(session, true, out); }
OrtStatus* SessionGetInputName(const OrtSession*, std::size_t, OrtAllocator*, char** out) {
  *out = strdup("x");
  return nullptr;
}
OrtStatus* SessionGetOverridableInitializerName(const OrtSession*, std::size_t, OrtAllocator*, char** out) {
  *out = strdup("w");
  return nullptr;
}
OrtStatus* SessionGetOutputName(const OrtSession*, std::size_t, OrtAllocator*, char** out) {
  *out = strdup("y");
  return nullptr;
}
OrtStatus* CastTypeInfoToTensorInfo(const OrtTypeInfo* type, const OrtTensorInfo** out) {
  *out = &type->tensor;
  return nullptr;
}
OrtStatus* GetOnnxTypeFromTypeInfo(const OrtTypeInfo* type, ValueKind* out) {
  *out = type->kind;
  return nullptr;
}
void ReleaseTypeInfo(OrtTypeInfo* type) {
  --fakeOrtCounts.infos;
  delete type;
}
OrtStatus* GetTensorElementType(const OrtTensorInfo* info, ElementType* out) {
  *out = info->type;
  return nullptr;
}
OrtStatus* GetDimensionsCount(const OrtTensorInfo* info, std::size_t* out) {
  *out = info->dims.size();
  return nullptr;
}
OrtStatus* GetDimensions(const OrtTensorInfo* info, std::int64_t* dims, std::size_t rank) {
  std::copy_n(info->dims.begin(), rank, dims);
  return nullptr;
}
OrtStatus* GetSymbolicDimensions(const OrtTensorInfo* info, const char** names, std::size_t rank) {
  std::copy_n(info->symbols.begin(), rank, names);
  return nullptr;
}
OrtStatus* GetTensorTypeAndShape(const OrtValue* value, OrtTensorInfo** out) {
  ++fakeOrtCounts.infos;
  *out = new OrtTensorInfo{value->type, value->dims, {}};
  return nullptr;
}
void ReleaseTensorTypeAndShapeInfo(OrtTensorInfo* info) {
  --fakeOrtCounts.infos;
  delete info;
}
OrtStatus* GetValueType(const OrtValue* value, ValueKind* out) {
  *out = value->kind;
  return nullptr;
}

OrtStatus* CreateRunOptions(OrtRunOptions** out) {
  ++fakeOrtCounts.runOptions;
  *out = new OrtRunOptions;
  return nullptr;
}
void ReleaseRunOptions(OrtRunOptions* options) {
  --fakeOrtCounts.runOptions;
  delete options;
}
OrtStatus* RunOptionsSetTerminate(OrtRunOptions* options) {
  options->terminate = true;
  return nullptr;
}
OrtStatus* RunOptionsUnsetTerminate(OrtRunOptions* options) {
  options->terminate = false;
  return nullptr;
}

OrtStatus* CreateTensorAsOrtValue(OrtAllocator*, const std::int64_t* dims, std::size_t rank, ElementType type, OrtValue** out) {
  *out = make(type, {dims, dims + rank});
  return nullptr;
}
OrtStatus* CreateTensorWithDataAsOrtValue(const OrtMemoryInfo*, void* data, std::size_t, const std::int64_t* dims, std::size_t rank,
                                          ElementType type, OrtValue** out) {
  ++fakeOrtCounts.values;
  *out = new OrtValue{type, {dims, dims + rank}, data, nullptr};
  return nullptr;
}
void ReleaseValue(OrtValue* value) {
  if (value == nullptr) return;
  --fakeOrtCounts.values;
  delete value;
}
OrtStatus* GetTensorMutableData(OrtValue* value, void** out) {
  *out = value->bytes;
  return nullptr;
}
OrtStatus* GetStringTensorDataLength(const OrtValue* value, std::size_t* out) {
  *out = 0;
  for (const std::string& text : value->own->strings) *out += text.size();
  return nullptr;
}
OrtStatus* GetStringTensorContent(const OrtValue* value, void* bytes, std::size_t, std::size_t* offsets, std::size_t) {
  std::size_t at = 0;
  for (const std::string& text : value->own->strings) {
    *offsets++ = at;
    std::memcpy(static_cast<char*>(bytes) + at, text.data(), text.size());
    at += text.size();
  }
  return nullptr;
}
OrtStatus* GetResizedStringTensorElementBuffer(OrtValue* value, std::size_t index, std::size_t bytes, char** out) {
  value->own->strings[index].resize(bytes);
  *out = value->own->strings[index].data();
  return nullptr;
}
OrtStatus* CreateCpuMemoryInfo(int, int, OrtMemoryInfo** out) {
  *out = &memory;
  return nullptr;
}
OrtStatus* AllocatorFree(OrtAllocator*, void* bytes) {
  std::free(bytes);
  return nullptr;
}
OrtStatus* GetAllocatorWithDefaultOptions(OrtAllocator** out) {
  *out = &allocator;
  return nullptr;
}

// An entry as it stands in the table: it fails where it is told to.
template <int place, typename Signature>
struct Entry;
template <int place, typename Result, typename... Parameters>
struct Entry<place, Result(Parameters...)> {
  template <Result (*entry)(Parameters...)>
  static Result call(Parameters... parameters) {
    if constexpr (std::is_same_v<Result, OrtStatus*>) {
      if (fakeOrtCounts.failAt == place) return failure("entry " + std::to_string(place) + " failed on purpose");
    }
    return entry(parameters...);
  }
};

const void* getApi(std::uint32_t version) {
  static void* table[512] = {};
#define FAKE_ENTRY(place, result, name, ...) \
  table[place] = reinterpret_cast<void*>(&Entry<place, result(__VA_ARGS__)>::template call<&name>);
  ZEROHOP_ORT_ENTRIES(FAKE_ENTRY)
#undef FAKE_ENTRY
  return static_cast<int>(version) > fakeOrtCounts.apiVersion ? nullptr : table;
}

const char* version() { return "1.99.0"; }

}  // namespace fake

struct ApiBase {
  const void* (*GetApi)(std::uint32_t);
  const char* (*GetVersionString)();
};

extern "C" const ApiBase* OrtGetApiBase() {
  static const ApiBase base{fake::getApi, fake::version};
  return &base;
}
