// Execution providers for JavaScript: what is built in, and plugins.
#pragma once

#include <napi.h>

namespace zerohop {

void exportProviders(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
