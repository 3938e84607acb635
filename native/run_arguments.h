// What describes sessions and batches, as JavaScript hands it over.
#pragma once

#include <napi.h>

#include <vector>

#include "ort/prepared_run.h"
#include "ort/session_options.h"

namespace zerohop {

// A list of `{ name, key?, value?, entries?, bytes? }`.
std::vector<ort::SessionSetting> settingsFrom(const Napi::Value& value);

// A list of `{ offset, dims }`, `null` for what lies elsewhere, `undefined` for what is not given or not wanted.
std::vector<ort::Place> placesFrom(const Napi::Value& value);

}  // namespace zerohop
