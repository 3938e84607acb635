// The staging pool and the CUDA probe as JavaScript functions, whose arguments are checked in every build.
#pragma once

#include <napi.h>

namespace zerohop {

void exportStaging(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
