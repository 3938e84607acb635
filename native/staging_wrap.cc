#include "staging_wrap.h"

#include <optional>
#include <utility>

#include "arguments.h"
#include "dynamic_library.h"
#include "staging_pool.h"
#include "staging_view.h"

// Everything here is process-wide state; an isolate owns nothing but the views of its leases, whose finalizers touch
// counters only. So there is no per-environment data to set up, and no order of teardown to keep.

namespace zerohop {

namespace {

// What one request for memory may be at most: past it sizes rounded up to pages would not fit everywhere.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 46;
constexpr std::int64_t kMostDevices = 1024;

Napi::Number number(Napi::Env env, std::size_t value) { return Napi::Number::New(env, static_cast<double>(value)); }

std::size_t byteLengthOf(const Napi::CallbackInfo& info) {
  return static_cast<std::size_t>(wholeNumber(info, 0, "byteLength", 1, kMostBytes));
}

int deviceOf(const Napi::CallbackInfo& info) {
  return static_cast<int>(wholeNumber(info, 1, "device", kPlainMemory, kMostDevices));
}

void configure(const Napi::CallbackInfo& info) {
  if (!info[0].IsObject()) throw Napi::TypeError::New(info.Env(), "options: expected an object");
  const Napi::Object options = info[0].As<Napi::Object>();
  const auto bytes = [&](const char* name, std::int64_t least, std::int64_t most) -> std::optional<std::size_t> {
    const Napi::Value value = options.Get(name);
    if (value.IsUndefined()) return std::nullopt;
    return static_cast<std::size_t>(wholeNumber(info.Env(), value, name, least, most));
  };
  const auto slabBytes = bytes("slabBytes", 1, kMostBytes);
  processPool().configure(slabBytes, bytes("limitBytes", 0, kMostSafeInteger));
}

Napi::Value claimLimit(const Napi::CallbackInfo& info) {
  const std::int64_t limitBytes = wholeNumber(info, 0, "limitBytes", 0, kMostSafeInteger);
  return number(info.Env(), processPool().claimLimit(static_cast<std::size_t>(limitBytes)));
}

void dropLimit(const Napi::CallbackInfo& info) {
  processPool().dropLimit(static_cast<std::uint64_t>(wholeNumber(info, 0, "claim", 1, kMostSafeInteger)));
}

// What takes over a lease: dropped, too, where no object can be made for it.
Napi::Value leaseObject(Napi::Env env, const std::optional<Lease>& lease) {
  if (!lease) return env.Null();
  Napi::Object result = Napi::Object::New(env);
  result.Set("id", number(env, lease->id));
  result.Set("bytes", makeView(env, lease->id));
  result.Set("kind", lease->kind == MemoryKind::kPinned ? "pinned" : "plain");
  result.Set("pastLimit", lease->pastLimit);
  if (!lease->reason.empty()) result.Set("reason", lease->reason);
  return result;
}

Napi::Value acquire(const Napi::CallbackInfo& info) {
  const std::size_t byteLength = byteLengthOf(info);
  const int device = deviceOf(info);
  if (!info[2].IsUndefined() && !info[2].IsBoolean()) {
    throw Napi::TypeError::New(info.Env(), "pastLimit: expected a boolean");
  }
  const bool pastLimit = !info[2].IsUndefined() && info[2].As<Napi::Boolean>();
  return leaseObject(info.Env(), processPool().acquire(byteLength, device, pastLimit));
}

// Page-locking takes milliseconds and, at a device's first time, the making of its context.
class AcquireWorker final : public Napi::AsyncWorker {
 public:
  AcquireWorker(Napi::Env env, std::size_t byteLength, int device)
      : Napi::AsyncWorker(env, "zerohop:acquire"), deferred_(env), byteLength_(byteLength), device_(device) {}
  // The environment has gone down before it could be told.
  ~AcquireWorker() override {
    if (lease_) processPool().release(lease_->id);
  }
  Napi::Promise promise() const { return deferred_.Promise(); }

 protected:
  void Execute() override { lease_ = processPool().acquire(byteLength_, device_); }
  void OnOK() override {
    const std::optional<Lease> lease = std::exchange(lease_, std::nullopt);
    try {
      deferred_.Resolve(leaseObject(Env(), lease));
    } catch (const Napi::Error& error) {
      deferred_.Reject(error.Value());
    }
  }
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  const Napi::Promise::Deferred deferred_;
  const std::size_t byteLength_;
  const int device_;
  std::optional<Lease> lease_;
};

Napi::Value acquireAsync(const Napi::CallbackInfo& info) {
  const std::size_t byteLength = byteLengthOf(info);
  auto* worker = new AcquireWorker(info.Env(), byteLength, deviceOf(info));
  const Napi::Promise promise = worker->promise();
  worker->Queue();
  return promise;
}

// (leaseId, offset, byteLength)
Napi::Value lend(const Napi::CallbackInfo& info) {
  const auto leaseId = static_cast<std::uint64_t>(wholeNumber(info, 0, "leaseId", 1, kMostSafeInteger));
  const auto offset = static_cast<std::size_t>(wholeNumber(info, 1, "offset", 0, kMostBytes));
  return lendView(info.Env(), leaseId, offset, static_cast<std::size_t>(wholeNumber(info, 2, "byteLength", 1, kMostBytes)));
}

void release(const Napi::CallbackInfo& info) { releaseView(info[0]); }

Napi::Value trim(const Napi::CallbackInfo& info) { return number(info.Env(), processPool().trim()); }

Napi::Value stats(const Napi::CallbackInfo& info) {
  const PoolStats stats = processPool().stats();
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("slabs", number(info.Env(), stats.slabs));
  result.Set("limitBytes", number(info.Env(), stats.limitBytes));
  result.Set("reservedBytes", number(info.Env(), stats.reservedBytes));
  result.Set("pinnedBytes", number(info.Env(), stats.pinnedBytes));
  result.Set("pastLimitBytes", number(info.Env(), stats.pastLimitBytes));
  result.Set("usedBytes", number(info.Env(), stats.usedBytes));
  result.Set("highWaterBytes", number(info.Env(), stats.highWaterBytes));
  result.Set("leases", number(info.Env(), stats.leases));
  result.Set("failures", number(info.Env(), stats.failures));
  return result;
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
  exports.Set("claimLimit", Napi::Function::New<claimLimit>(env, "claimLimit"));
  exports.Set("dropLimit", Napi::Function::New<dropLimit>(env, "dropLimit"));
  exports.Set("acquire", Napi::Function::New<acquire>(env, "acquire"));
  exports.Set("acquireAsync", Napi::Function::New<acquireAsync>(env, "acquireAsync"));
  exports.Set("lend", Napi::Function::New<lend>(env, "lend"));
  exports.Set("release", Napi::Function::New<release>(env, "release"));
  exports.Set("trim", Napi::Function::New<trim>(env, "trim"));
  exports.Set("stats", Napi::Function::New<stats>(env, "stats"));
  exports.Set("cudaProbe", Napi::Function::New<cudaProbe>(env, "cudaProbe"));
}

}  // namespace zerohop
