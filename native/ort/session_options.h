// The options of a session as they come from JavaScript: a list of settings, each by name.
#pragma once

#include <string>
#include <vector>

#include "provider_plugins.h"

namespace zerohop::ort {

// One setting. `entries` are the options of an execution provider, or of a plugin, whose device is the `value`.
struct SessionSetting {
  std::string name;
  std::string key;
  std::string value;
  Entries entries;
};

// Throws OrtError for a setting that is unknown here, or that ONNX Runtime refuses.
Owned<OrtSessionOptions> makeSessionOptions(const OrtLibrary& library, const std::vector<SessionSetting>& settings);

// The settings as text: equal for equal settings only.
std::string keyOf(const std::vector<SessionSetting>& settings);

}  // namespace zerohop::ort
