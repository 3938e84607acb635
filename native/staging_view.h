// Leases as JavaScript holds them: an ArrayBuffer over the slot, in the isolate that asked for it.
#pragma once

#include <napi.h>

#include "staging_pool.h"

namespace zerohop {

// The view of a lease, which it takes over: the lease is dropped by releaseView, else when the view is collected.
// Throws, with code ERR_NO_EXTERNAL_BUFFERS where the runtime allows no buffers over native memory.
Napi::Value makeView(Napi::Env env, std::uint64_t leaseId);

// Takes the memory from a view at once, and drops its lease; all that is left is a buffer of length 0. A second time it
// does nothing. Throws a TypeError for anything that makeView has not made.
void releaseView(const Napi::Value& view);

}  // namespace zerohop
