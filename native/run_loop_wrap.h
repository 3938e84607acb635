// ONNX Runtime for JavaScript: the library, and the loops that run models.
#pragma once

#include <napi.h>

namespace zerohop {

void exportRunLoops(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
