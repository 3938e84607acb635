// What processes share, as JavaScript functions: `processes`, which is null on systems that cannot hand memory over.
#pragma once

#include <napi.h>

namespace zerohop {

void exportProcesses(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
