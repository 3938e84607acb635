// Wakes the event loop of another process, and has this one's woken.
#pragma once

#include <napi.h>

namespace zerohop {

// JavaScript: `new Bell(descriptor, onRing)`, which takes the descriptor over. `onRing` is called once for all rings that have come.
// `new Bell(descriptor, onReadable, true)` only watches: what can be read is left to be read, and the descriptor is the caller's.
Napi::Function defineBell(Napi::Env env);

}  // namespace zerohop
