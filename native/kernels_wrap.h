// Loops over many bytes as JavaScript functions, over typed arrays whose lengths are checked in every build.
#pragma once

#include <napi.h>

namespace zerohop {

void exportKernels(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
