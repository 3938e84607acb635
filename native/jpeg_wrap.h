// From the bytes of a JPEG to pixels of the wanted size, as a JavaScript function that works on a thread of the pool.
#pragma once

#include <napi.h>

namespace zerohop {

void exportJpeg(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
