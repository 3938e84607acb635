#include "staging_view.h"

#include <string>
#include <utility>

#include "check.h"

namespace zerohop {

namespace {

// Tells our views from whatever else JavaScript hands over.
constexpr napi_type_tag kViewTag = {0x7a65726f686f7001, 0x73746167696e6756};

// A view's hold on its lease, and a reference to the slot. Owned by the view's finalizer, on the isolate's own thread.
struct Hold {
  std::uint64_t leaseId;
  StagingPool::Slot* slot;  // nullptr once the view was released
  bool ownsLease;           // else another view has it
};

// After a collection or a release, or while the environment goes down.
void NAPI_CDECL finalizeView(napi_env, void*, void* hint) {
  Hold* hold = static_cast<Hold*>(hint);
  if (hold->slot != nullptr && hold->ownsLease) StagingPool::abandon(hold->slot);
  else if (hold->slot != nullptr) StagingPool::unrefer(hold->slot);
  delete hold;
}

// Never a SharedArrayBuffer, although newer Node could make one: nothing can take memory from that but the collector,
// and a thread that has nothing to do does not collect. V8 counts an external ArrayBuffer's length towards its
// isolate's collections by itself (measured), so napi_adjust_external_memory would count it twice.
Napi::Value viewOf(Napi::Env env, Hold* hold, std::size_t offset, std::size_t byteLength) {
  napi_value buffer = nullptr;
  const napi_status status = napi_create_external_arraybuffer(env, hold->slot->data + offset, byteLength, finalizeView, hold, &buffer);
  if (status == napi_no_external_buffers_allowed) {
    finalizeView(env, nullptr, hold);
    Napi::Error refused = Napi::Error::New(env, "this runtime allows no buffers over native memory");
    refused.Set("code", "ERR_NO_EXTERNAL_BUFFERS");
    throw refused;
  }
  // After any other failure Node may have taken the finalizer already: a leaked slot is better than a shared one.
  if (status != napi_ok) throw Napi::Error::New(env);
  if (napi_type_tag_object(env, buffer, &kViewTag) != napi_ok ||
      napi_wrap(env, buffer, hold, nullptr, nullptr, nullptr) != napi_ok) {
    throw Napi::Error::New(env);
  }
  return Napi::Value(env, buffer);
}

}  // namespace

Napi::Value makeView(Napi::Env env, std::uint64_t leaseId) {
  StagingPool::Slot* slot = processPool().refer(leaseId);
  ZEROHOP_CHECK(slot != nullptr);
  return viewOf(env, new Hold{leaseId, slot, true}, 0, slot->bytes);
}

Napi::Value lendView(Napi::Env env, std::uint64_t leaseId, std::size_t offset, std::size_t byteLength) {
  StagingPool::Slot* slot = processPool().refer(leaseId);
  if (slot == nullptr) throw Napi::Error::New(env, "staging lease " + std::to_string(leaseId) + " is not held");
  if (offset > slot->bytes || byteLength > slot->bytes - offset) {
    StagingPool::unrefer(slot);
    throw Napi::RangeError::New(env, "bytes: expected such as the lease has");
  }
  return viewOf(env, new Hold{leaseId, slot, false}, offset, byteLength);
}

void releaseView(const Napi::Value& view) {
  const Napi::Env env = view.Env();
  bool ours = false;
  if (view.IsArrayBuffer()) napi_check_object_type_tag(env, view, &kViewTag, &ours);
  if (!ours) throw Napi::TypeError::New(env, "bytes: expected those of a lease");
  void* hold = nullptr;
  if (napi_remove_wrap(env, view, &hold) != napi_ok) return;  // released before
  bool gone = false;
  napi_is_detached_arraybuffer(env, view, &gone);
  // Somebody else has moved the memory to another buffer, with which the lease goes, or has gone.
  if (gone) return;
  if (napi_detach_arraybuffer(env, view) != napi_ok) throw Napi::Error::New(env);
  Hold* held = static_cast<Hold*>(hold);
  ZEROHOP_CHECK(held->slot != nullptr);
  StagingPool::unrefer(std::exchange(held->slot, nullptr));
  if (held->ownsLease) processPool().release(held->leaseId);
}

}  // namespace zerohop
