// Execution providers: those that are built into ONNX Runtime, and plugins, which are libraries of their own.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ort_library.h"

namespace zerohop::ort {

// Options by name.
using Entries = std::vector<std::pair<std::string, std::string>>;

// A device that a plugin offers to compute on.
struct ProviderDevice {
  const OrtEpDevice* handle = nullptr;  // lives as long as the process
  std::string provider;                 // as ONNX Runtime calls it
  std::string providerVendor;
  HardwareKind kind = HardwareKind::kCpu;
  std::string hardwareVendor;
  Entries metadata;
};

// A name or a path is registered with another one.
class PluginTaken : public OrtError {
  using OrtError::OrtError;
};

// ONNX Runtime's names of the providers that are built in.
std::vector<std::string> builtInProviders(const OrtLibrary& library);

// Registers the plugin at `path`, once for the process, and gives its devices, of which there may be none. Throws OrtError
// where it cannot be loaded, and PluginTaken.
std::vector<ProviderDevice> registerPlugin(const OrtLibrary& library, const std::string& name, const std::string& path);

// Has a session use device number `device` of the plugin that is registered as `name`. Throws OrtError.
void appendPlugin(const OrtLibrary& library, OrtSessionOptions* options, const std::string& name, std::size_t device,
                  const Entries& entries);

// Opens and runs a model of one operator on the plugin's first device, if it has one: what ends the process does so now.
void tryPlugin(const OrtLibrary& library, const std::string& name);

// Views of options, in the form in which ONNX Runtime takes them.
struct EntryViews {
  explicit EntryViews(const Entries& entries);

  std::vector<const char*> keys;
  std::vector<const char*> values;
};

}  // namespace zerohop::ort
