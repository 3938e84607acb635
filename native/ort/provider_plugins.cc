#include "provider_plugins.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "prepared_run.h"

namespace zerohop::ort {

namespace {

struct Plugin {
  std::string path;
  std::vector<ProviderDevice> devices;
};

// ONNX Runtime's environment is one for the process, and so are its plugins; none is ever taken out.
std::mutex pluginsMutex;
std::map<std::string, Plugin>& plugins = *new std::map<std::string, Plugin>;

std::string textOf(const char* text) { return text != nullptr ? text : ""; }

ProviderDevice deviceOf(const OrtApi& api, const OrtEpDevice* handle) {
  const OrtHardwareDevice* hardware = api.EpDevice_Device(handle);
  ProviderDevice device{handle, textOf(api.EpDevice_EpName(handle)), textOf(api.EpDevice_EpVendor(handle)),
                        api.HardwareDevice_Type(hardware), textOf(api.HardwareDevice_Vendor(hardware)), {}};
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t count = 0;
  api.GetKeyValuePairs(api.EpDevice_EpMetadata(handle), &keys, &values, &count);
  for (std::size_t index = 0; index < count; ++index) device.metadata.emplace_back(textOf(keys[index]), textOf(values[index]));
  return device;
}

std::vector<const OrtEpDevice*> allDevices(const OrtLibrary& library) {
  const OrtEpDevice* const* devices = nullptr;
  std::size_t count = 0;
  library.check(library.api.GetEpDevices(library.env, &devices, &count));
  return {devices, devices + count};
}

// `Relu` of one float: a model that any provider can take.
constexpr unsigned char kSmallModel[] = {
    0x08, 0x08, 0x3a, 0x33, 0x0a, 0x0c, 0x0a, 0x01, 'x',  0x12, 0x01, 'y',  0x22, 0x04, 'R',  'e',
    'l',  'u',  0x12, 0x01, 'g',  0x5a, 0x0f, 0x0a, 0x01, 'x',  0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01,
    0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x62, 0x0f, 0x0a, 0x01, 'y',  0x12, 0x0a, 0x0a, 0x08, 0x08,
    0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x42, 0x02, 0x10, 0x0d,
};

}  // namespace

EntryViews::EntryViews(const Entries& entries) {
  for (const auto& [key, value] : entries) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
}

std::vector<std::string> builtInProviders(const OrtLibrary& library) {
  char** names = nullptr;
  int count = 0;
  library.check(library.api.GetAvailableProviders(&names, &count));
  std::vector<std::string> copies(names, names + count);
  library.check(library.api.ReleaseAvailableProviders(names, count));
  return copies;
}

std::vector<ProviderDevice> registerPlugin(const OrtLibrary& library, const std::string& name, const std::string& path) {
  const std::lock_guard lock(pluginsMutex);
  for (const auto& [itsName, plugin] : plugins) {
    if (itsName == name && plugin.path == path) return plugin.devices;
    if (itsName == name) throw PluginTaken("this process has the plugin " + plugin.path + " under the name " + name + " already");
    if (plugin.path == path) throw PluginTaken("this process has that plugin under the name " + itsName + " already");
  }
  const std::vector<const OrtEpDevice*> before = allDevices(library);
  library.check(library.api.RegisterExecutionProviderLibrary(library.env, name.c_str(), std::filesystem::u8path(path).c_str()));
  Plugin plugin{path, {}};
  for (const OrtEpDevice* device : allDevices(library)) {
    if (std::find(before.begin(), before.end(), device) == before.end()) plugin.devices.push_back(deviceOf(library.api, device));
  }
  return plugins.emplace(name, std::move(plugin)).first->second.devices;
}

void appendPlugin(const OrtLibrary& library, OrtSessionOptions* options, const std::string& name, std::size_t device,
                  const Entries& entries) {
  const OrtEpDevice* chosen = nullptr;
  {
    const std::lock_guard lock(pluginsMutex);
    const auto found = plugins.find(name);
    if (found == plugins.end()) throw OrtError("the provider plugin " + name + " is not registered");
    if (device >= found->second.devices.size()) {
      throw OrtError("the provider plugin " + name + " has no device " + std::to_string(device) + " here, but " +
                     std::to_string(found->second.devices.size()) + " in all");
    }
    chosen = found->second.devices[device].handle;
  }
  const EntryViews views(entries);
  library.check(library.api.SessionOptionsAppendExecutionProvider_V2(options, library.env, &chosen, 1, views.keys.data(),
                                                                     views.values.data(), entries.size()));
}

void tryPlugin(const OrtLibrary& library, const std::string& name) {
  {
    const std::lock_guard lock(pluginsMutex);
    const auto found = plugins.find(name);
    if (found == plugins.end() || found->second.devices.empty()) return;
  }
  const ModelSource source{"", kSmallModel, sizeof(kSmallModel), 0};
  Opening opening;
  const auto session = std::make_shared<Session>(library, source, std::vector<SessionSetting>{{"plugin", name, "0", {}}}, opening);
  ValueCopies feeds(1);
  feeds[0].emplace();
  feeds[0]->tensor = TensorCopy{ElementType::kFloat32, {1}, {}, sizeof(float), {}};
  feeds[0]->tensor.bytes.reset(std::calloc(1, sizeof(float)));
  const std::vector<Place> apart{Place{Place::Kind::kApart, 0, {}}};
  const auto options = own<OrtRunOptions>(library, library.api.ReleaseRunOptions, library.api.CreateRunOptions);
  PreparedRun(session, {}, apart, apart).run(options.get(), feeds);
}

}  // namespace zerohop::ort
