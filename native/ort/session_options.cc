#include "session_options.h"

#include <cstdlib>
#include <filesystem>

namespace zerohop::ort {

namespace {

std::basic_string<OrtPathChar> nativePath(const std::string& path) { return std::filesystem::u8path(path).native(); }

void appendProvider(const OrtLibrary& library, OrtSessionOptions* options, const SessionSetting& setting) {
  const OrtApi& api = library.api;
  const EntryViews entries(setting.entries);
  const char* const* keys = entries.keys.data();
  const char* const* values = entries.values.data();
  const std::size_t count = setting.entries.size();
  if (setting.key == "CUDA") {
    const auto cuda = own<OrtCudaOptions>(library, api.ReleaseCUDAProviderOptions, api.CreateCUDAProviderOptions);
    library.check(api.UpdateCUDAProviderOptions(cuda.get(), keys, values, count));
    library.check(api.SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda.get()));
  } else if (setting.key == "TensorRT") {
    const auto tensorRt = own<OrtTensorRtOptions>(library, api.ReleaseTensorRTProviderOptions, api.CreateTensorRTProviderOptions);
    library.check(api.UpdateTensorRTProviderOptions(tensorRt.get(), keys, values, count));
    library.check(api.SessionOptionsAppendExecutionProvider_TensorRT_V2(options, tensorRt.get()));
  } else {
    library.check(api.SessionOptionsAppendExecutionProvider(options, setting.key.c_str(), keys, values, count));
  }
}

void addExternalFile(const OrtLibrary& library, OrtSessionOptions* options, const SessionSetting& setting) {
  const auto path = nativePath(setting.key);
  const OrtPathChar* name = path.c_str();
  // It is read only, and copied.
  char* contents = const_cast<char*>(setting.bytes->data());
  const std::size_t length = setting.bytes->size();
  library.check(library.api.AddExternalInitializersFromFilesInMemory(options, &name, &contents, &length, 1));
}

void apply(const OrtLibrary& library, OrtSessionOptions* options, const SessionSetting& setting) {
  const OrtApi& api = library.api;
  const std::string& name = setting.name;
  const char* value = setting.value.c_str();
  const auto number = [&] { return std::atoi(value); };
  const auto status = [&]() -> OrtStatus* {
    if (name == "intraOpNumThreads") return api.SetIntraOpNumThreads(options, number());
    if (name == "interOpNumThreads") return api.SetInterOpNumThreads(options, number());
    if (name == "executionMode") return api.SetSessionExecutionMode(options, number());
    if (name == "graphOptimizationLevel") return api.SetSessionGraphOptimizationLevel(options, number());
    if (name == "enableCpuMemArena") return (number() != 0 ? api.EnableCpuMemArena : api.DisableCpuMemArena)(options);
    if (name == "enableMemPattern") return (number() != 0 ? api.EnableMemPattern : api.DisableMemPattern)(options);
    if (name == "optimizedModelFilePath") return api.SetOptimizedModelFilePath(options, nativePath(setting.value).c_str());
    if (name == "profileFilePrefix") return api.EnableProfiling(options, nativePath(setting.value).c_str());
    if (name == "logId") return api.SetSessionLogId(options, value);
    if (name == "logSeverityLevel") return api.SetSessionLogSeverityLevel(options, number());
    if (name == "logVerbosityLevel") return api.SetSessionLogVerbosityLevel(options, number());
    if (name == "config") return api.AddSessionConfigEntry(options, setting.key.c_str(), value);
    if (name == "freeDimension") {
      return api.AddFreeDimensionOverrideByName(options, setting.key.c_str(), std::strtoll(value, nullptr, 10));
    }
    if (name == "freeDimensionByDenotation") {
      return api.AddFreeDimensionOverride(options, setting.key.c_str(), std::strtoll(value, nullptr, 10));
    }
    throw OrtError("the session option " + name + " is not known here");
  };
  if (name == "provider") appendProvider(library, options, setting);
  else if (name == "plugin") appendPlugin(library, options, setting.key, std::strtoull(value, nullptr, 10), setting.entries);
  else if (name == "externalFile") addExternalFile(library, options, setting);
  else if (name != "runConfig" && name != "secondThreads") library.check(status());
}

}  // namespace

Owned<OrtSessionOptions> makeSessionOptions(const OrtLibrary& library, const std::vector<SessionSetting>& settings) {
  auto options = own<OrtSessionOptions>(library, library.api.ReleaseSessionOptions, library.api.CreateSessionOptions);
  for (const SessionSetting& setting : settings) apply(library, options.get(), setting);
  return options;
}

Entries runEntriesOf(const std::vector<SessionSetting>& settings) {
  Entries entries;
  for (const SessionSetting& setting : settings) {
    if (setting.name == "runConfig") entries.emplace_back(setting.key, setting.value);
  }
  return entries;
}

std::string keyOf(const std::vector<SessionSetting>& settings) {
  std::string key;
  // Each part with its length: whatever it contains, it cannot be taken for two.
  const auto add = [&](const std::string& part) { key += std::to_string(part.size()) + ':' + part; };
  for (const auto& [name, of, value, entries, bytes] : settings) {
    for (const std::string& part : {name, of, value}) add(part);
    for (const auto& [entry, its] : entries) {
      add(entry);
      add(its);
    }
    key += ';';
  }
  return key;
}

}  // namespace zerohop::ort
