// Views of staging memory: ArrayBuffers over a slot, one or more in each isolate that asks for them.
#pragma once

#include <napi.h>

#include "staging_pool.h"

namespace zerohop {

// A view that takes over a reference to `slot`: it is dropped by detachView, else when the view is collected.
// Throws, with code ERR_NO_EXTERNAL_BUFFERS where the runtime allows no buffers over native memory.
Napi::Value makeView(Napi::Env env, StagingPool::Slot* slot);

// Takes the memory from a view at once; all that is left is a buffer of length 0. A second time it does nothing.
// Throws a TypeError for anything that makeView has not made.
void detachView(const Napi::Value& view);

}  // namespace zerohop
