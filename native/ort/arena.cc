#include "arena.h"

#include <cstdlib>
#include <string>
#include <vector>

namespace zerohop::ort {

namespace {

std::uint64_t valueOf(const OrtLibrary& library, const OrtKeyValuePairs* stats, const char* key) {
  const char* value = library.api.GetKeyValue(stats, key);
  return value == nullptr ? 0 : std::strtoull(value, nullptr, 10);
}

// Each has an arena of its own.
std::vector<OrtSession*> sessionsOf(const Session& session) {
  if (session.second() == session.get()) return {session.get()};
  return {session.get(), session.second()};
}

Owned<OrtAllocator> arenaOf(const OrtLibrary& library, OrtSession* session) {
  return own<OrtAllocator>(library, library.api.ReleaseAllocator,
                           [&](OrtAllocator** out) { return library.api.CreateAllocator(session, library.cpuMemory, out); });
}

// Any values at all: none is read.
std::vector<Owned<OrtValue>> someInputs(const Session& session) {
  const OrtLibrary& library = session.library;
  std::vector<Owned<OrtValue>> values;
  for (const ValueInfo& info : session.inputs) {
    if (info.kind != ValueKind::kTensor) throw OrtError("input " + info.name + " is no tensor");
    std::vector<std::int64_t> dims = info.dims;
    for (std::int64_t& dim : dims) dim = dim < 0 ? 1 : dim;
    values.push_back(own<OrtValue>(library, library.api.ReleaseValue, [&](OrtValue** out) {
      return library.api.CreateTensorAsOrtValue(library.allocator, dims.data(), dims.size(), info.type, out);
    }));
  }
  return values;
}

}  // namespace

void beginArena(const Session& session) {
  const OrtLibrary& library = session.library;
  for (OrtSession* each : sessionsOf(session)) {
    const auto arena = arenaOf(library, each);
    void* bytes = nullptr;
    library.check(library.api.AllocatorAlloc(arena.get(), 1, &bytes));
    library.check(library.api.AllocatorFree(arena.get(), bytes));
  }
}

std::optional<ArenaStats> arenaStats(const Session& session) {
  const OrtLibrary& library = session.library;
  const OrtApi& api = library.api;
  ArenaStats sum;
  for (OrtSession* each : sessionsOf(session)) {
    const auto arena = arenaOf(library, each);
    const auto stats = own<OrtKeyValuePairs>(library, api.ReleaseKeyValuePairs,
                                             [&](OrtKeyValuePairs** out) { return api.AllocatorGetStats(arena.get(), out); });
    if (api.GetKeyValue(stats.get(), "TotalAllocated") == nullptr) return std::nullopt;
    sum.totalBytes += valueOf(library, stats.get(), "TotalAllocated");
    sum.inUseBytes += valueOf(library, stats.get(), "InUse");
    sum.mostInUseBytes += valueOf(library, stats.get(), "MaxInUse");
  }
  return sum;
}

void shrinkArena(const Session& session) {
  const OrtLibrary& library = session.library;
  const OrtApi& api = library.api;
  const auto options = own<OrtRunOptions>(library, api.ReleaseRunOptions, api.CreateRunOptions);
  library.check(api.AddRunConfigEntry(options.get(), "memory.enable_memory_arena_shrinkage", "cpu:0"));
  library.check(api.RunOptionsSetTerminate(options.get()));
  const auto values = someInputs(session);
  std::vector<const char*> inputNames, outputNames;
  std::vector<const OrtValue*> inputs;
  for (std::size_t index = 0; index < values.size(); ++index) {
    inputNames.push_back(session.inputs[index].name.c_str());
    inputs.push_back(values[index].get());
  }
  for (const ValueInfo& info : session.outputs) outputNames.push_back(info.name.c_str());
  for (OrtSession* each : sessionsOf(session)) {
    std::vector<OrtValue*> outputs(outputNames.size());
    OrtStatus* status = api.Run(each, options.get(), inputNames.data(), inputs.data(), inputs.size(), outputNames.data(),
                                outputs.size(), outputs.data());
    if (status != nullptr) api.ReleaseStatus(status);  // that it was stopped
    for (OrtValue* output : outputs) {
      if (output != nullptr) api.ReleaseValue(output);  // of a model without operators
    }
  }
}

}  // namespace zerohop::ort
