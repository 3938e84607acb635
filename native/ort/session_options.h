// The options of a session as they come from JavaScript: a list of settings, each by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ort_library.h"

namespace zerohop::ort {

// One setting. `entries` are the options of an execution provider.
struct SessionSetting {
  std::string name;
  std::string key;
  std::string value;
  std::vector<std::pair<std::string, std::string>> entries;
};

// Throws OrtError for a setting that is unknown here, or that ONNX Runtime refuses.
Owned<OrtSessionOptions> makeSessionOptions(const OrtLibrary& library, const std::vector<SessionSetting>& settings);

// The settings as text: equal for equal settings only.
std::string keyOf(const std::vector<SessionSetting>& settings);

}  // namespace zerohop::ort
