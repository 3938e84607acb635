// The staging pool and the CUDA probe as JavaScript functions. TypeScript validates arguments before they get here.
#pragma once

#include <napi.h>

namespace zerohop {

void exportStaging(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
