// Leases as JavaScript holds them: an ArrayBuffer over the slot, in the isolate that asked for it.
#pragma once

#include <napi.h>

#include "staging_pool.h"

namespace zerohop {

// The view of a lease, which it takes over: the lease is dropped by releaseView, else when the view is collected.
// Throws, with code ERR_NO_EXTERNAL_BUFFERS where the runtime allows no buffers over native memory.
Napi::Value makeView(Napi::Env env, std::uint64_t leaseId);

// A further view of some bytes of a lease that another one has. It refers to the memory until it is released or collected.
Napi::Value lendView(Napi::Env env, std::uint64_t leaseId, std::size_t offset, std::size_t byteLength);

// Takes the memory from a view at once, and drops its lease where it has that; all that is left is a buffer of length 0. A
// second time it does nothing. Throws a TypeError for anything that was not made here.
void releaseView(const Napi::Value& view);

}  // namespace zerohop
