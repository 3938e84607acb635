// The threads of loops: each is started by a worker's thread, and ends with it.
#pragma once

#include <napi.h>

#include <memory>

#include "ort/run_loop.h"

namespace zerohop {

// Makes a loop known by its number, by which a worker's thread starts it, as long as somebody else holds it.
void registerLoop(const std::shared_ptr<ort::RunLoop>& loop);
void unregisterLoop(const ort::RunLoop& loop);

void exportLoopThreads(Napi::Env env, Napi::Object exports);

}  // namespace zerohop
