// The threads of loops: each ends with the environment that started it.
#pragma once

#include <napi.h>

#include <memory>

#include "ort/run_loop.h"

namespace zerohop {

// Makes a loop known by its number, by which it is started, as long as somebody else holds it.
void registerLoop(const std::shared_ptr<ort::RunLoop>& loop);
void unregisterLoop(const ort::RunLoop& loop);
// A loop has ended; called in the environment that started it, whose end does not concern it any more.
void forgetEnd(Napi::Env env, const ort::RunLoop& loop);

void exportLoopThreads(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
