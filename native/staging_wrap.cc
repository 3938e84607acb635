#include "staging_wrap.h"

#include <cassert>

#include "dynamic_library.h"
#include "staging_pool.h"

// Everything here is process-wide state reached by a lease's number; an isolate owns nothing but its views, whose
// finalizers touch a counter only. So there is no per-environment data to set up, and no order of teardown to keep.

namespace zerohop {

namespace {

// Newer than the headers we build with, so declared by hand and looked up in the running Node.
using CreateExternalShared = napi_status(NAPI_CDECL*)(napi_env env, void* data, std::size_t byteLength,
                                                      void(NAPI_CDECL* finalize)(void* data, void* hint), void* hint,
                                                      napi_value* result);

CreateExternalShared createExternalShared() {
  static const auto found =
      reinterpret_cast<CreateExternalShared>(findProcessSymbol("node_api_create_external_sharedarraybuffer"));
  return found;
}

// On any thread, when the last isolate lets go of the memory.
void NAPI_CDECL finalizeShared(void*, void* slot) { StagingPool::unrefer(static_cast<StagingPool::Slot*>(slot)); }

// On the isolate's own thread, after a collection or while its environment goes down.
void NAPI_CDECL finalizeView(napi_env, void*, void* slot) {
  StagingPool::unrefer(static_cast<StagingPool::Slot*>(slot));
}

std::size_t bytesOf(const Napi::Value& value) {
  assert(value.IsNumber());
  return static_cast<std::size_t>(value.As<Napi::Number>().Int64Value());
}

std::uint64_t idOf(const Napi::CallbackInfo& info) {
  assert(info.Length() > 0 && info[0].IsNumber());
  return static_cast<std::uint64_t>(info[0].As<Napi::Number>().Int64Value());
}

Napi::Number number(Napi::Env env, std::size_t value) { return Napi::Number::New(env, static_cast<double>(value)); }

void configure(const Napi::CallbackInfo& info) {
  const Napi::Object options = info[0].As<Napi::Object>();
  const auto bytes = [&](const char* name) -> std::optional<std::size_t> {
    const Napi::Value value = options.Get(name);
    return value.IsUndefined() ? std::nullopt : std::optional(bytesOf(value));
  };
  processPool().configure(bytes("slabBytes"), bytes("limitBytes"));
}

Napi::Value acquire(const Napi::CallbackInfo& info) {
  const std::size_t byteLength = bytesOf(info[0]);
  assert(byteLength > 0);
  const std::optional<Lease> lease = processPool().acquire(byteLength, info[1].As<Napi::Boolean>());
  if (!lease) return info.Env().Null();
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("id", number(info.Env(), lease->id));
  result.Set("byteLength", number(info.Env(), lease->bytes));
  result.Set("kind", lease->kind == MemoryKind::kPinned ? "pinned" : "plain");
  if (!lease->reason.empty()) result.Set("reason", lease->reason);
  return result;
}

// V8 counts an external ArrayBuffer's length towards its isolate's collections by itself (measured), so
// napi_adjust_external_memory would count it twice. A shared one belongs to no isolate: its finalizer, without an
// environment, could not take the bytes off again.
Napi::Value view(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  StagingPool::Slot* slot = processPool().refer(idOf(info));
  if (slot == nullptr) {
    throw Napi::Error::New(env, "staging lease " + std::to_string(idOf(info)) + " is not held");
  }
  napi_value buffer = nullptr;
  const CreateExternalShared createShared = createExternalShared();
  const napi_status status =
      createShared != nullptr
          ? createShared(env, slot->data, slot->bytes, finalizeShared, slot, &buffer)
          : napi_create_external_arraybuffer(env, slot->data, slot->bytes, finalizeView, slot, &buffer);
  if (status == napi_ok) return Napi::Value(env, buffer);
  // After any other failure Node may have taken the finalizer already: a leaked slot is better than a shared one.
  if (status != napi_no_external_buffers_allowed) throw Napi::Error::New(env);
  StagingPool::unrefer(slot);
  Napi::Error refused = Napi::Error::New(env, "this runtime allows no buffers over native memory");
  refused.Set("code", "ERR_NO_EXTERNAL_BUFFERS");
  throw refused;
}

void release(const Napi::CallbackInfo& info) { processPool().release(idOf(info)); }

Napi::Value trim(const Napi::CallbackInfo& info) { return number(info.Env(), processPool().trim()); }

Napi::Value stats(const Napi::CallbackInfo& info) {
  const PoolStats stats = processPool().stats();
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("slabs", number(info.Env(), stats.slabs));
  result.Set("reservedBytes", number(info.Env(), stats.reservedBytes));
  result.Set("pinnedBytes", number(info.Env(), stats.pinnedBytes));
  result.Set("usedBytes", number(info.Env(), stats.usedBytes));
  result.Set("highWaterBytes", number(info.Env(), stats.highWaterBytes));
  result.Set("leases", number(info.Env(), stats.leases));
  result.Set("failures", number(info.Env(), stats.failures));
  return result;
}

Napi::Value viewKind(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), createExternalShared() != nullptr ? "sharedarraybuffer" : "arraybuffer");
}

Napi::Value cudaProbe(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const CudaProbe& probe = processCudaDriver().probe();
  Napi::Array devices = Napi::Array::New(env, probe.devices.size());
  for (std::uint32_t index = 0; index < probe.devices.size(); ++index) {
    Napi::Object device = Napi::Object::New(env);
    device.Set("ordinal", probe.devices[index].ordinal);
    device.Set("name", probe.devices[index].name);
    device.Set("totalBytes", number(env, probe.devices[index].totalBytes));
    devices.Set(index, device);
  }
  Napi::Object result = Napi::Object::New(env);
  result.Set("available", probe.available);
  result.Set("reason", probe.reason);
  result.Set("driverVersion", probe.driverVersion);
  result.Set("devices", devices);
  return result;
}

}  // namespace

void exportStaging(Napi::Env env, Napi::Object exports) {
  pinThisLibrary();
  exports.Set("configure", Napi::Function::New<configure>(env, "configure"));
  exports.Set("acquire", Napi::Function::New<acquire>(env, "acquire"));
  exports.Set("view", Napi::Function::New<view>(env, "view"));
  exports.Set("release", Napi::Function::New<release>(env, "release"));
  exports.Set("trim", Napi::Function::New<trim>(env, "trim"));
  exports.Set("stats", Napi::Function::New<stats>(env, "stats"));
  exports.Set("viewKind", Napi::Function::New<viewKind>(env, "viewKind"));
  exports.Set("cudaProbe", Napi::Function::New<cudaProbe>(env, "cudaProbe"));
}

}  // namespace zerohop
