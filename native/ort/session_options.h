// The options of a session as they come from JavaScript: a list of settings, each by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provider_plugins.h"

namespace zerohop::ort {

// One setting. `entries` are the options of an execution provider, or of a plugin, whose device is the `value`. `bytes` are the
// contents of a file of external data, told apart from others by the `value`; they only have to live until the session is open.
struct SessionSetting {
  std::string name;
  std::string key;
  std::string value;
  Entries entries;
  std::shared_ptr<const std::string> bytes = nullptr;
};

// Throws OrtError for a setting that is unknown here, or that ONNX Runtime refuses.
Owned<OrtSessionOptions> makeSessionOptions(const OrtLibrary& library, const std::vector<SessionSetting>& settings);

// The config entries of a session's runs.
Entries runEntriesOf(const std::vector<SessionSetting>& settings);

// The settings as text: equal for equal settings only.
std::string keyOf(const std::vector<SessionSetting>& settings);

}  // namespace zerohop::ort
