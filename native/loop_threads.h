// The threads of loops: each ends with the environment that started it.
#pragma once

#include <napi.h>

#include <memory>

#include "ort/run_loop.h"

namespace zerohop {

// Starts a loop; false when it was ended before.
bool startLoop(Napi::Env env, const std::shared_ptr<ort::RunLoop>& loop, int niceIncrement);
// A loop has ended: the end of its environment does not concern it any more.
void forgetLoop(const ort::RunLoop& loop);

void exportLoopThreads(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
