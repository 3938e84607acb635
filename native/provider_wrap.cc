#include "provider_wrap.h"

#include <string>
#include <vector>

#include "ort/provider_plugins.h"

namespace zerohop {

namespace {

using ort::OrtLibrary;
using ort::ProviderDevice;

const char* nameOf(ort::HardwareKind kind) {
  switch (kind) {
    case ort::HardwareKind::kCpu: return "cpu";
    case ort::HardwareKind::kGpu: return "gpu";
    case ort::HardwareKind::kNpu: return "npu";
  }
  return "other";
}

Napi::Object deviceObject(Napi::Env env, const ProviderDevice& device) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("provider", device.provider);
  object.Set("providerVendor", device.providerVendor);
  object.Set("kind", nameOf(device.kind));
  object.Set("hardwareVendor", device.hardwareVendor);
  Napi::Object metadata = Napi::Object::New(env);
  for (const auto& [key, value] : device.metadata) metadata.Set(key, value);
  object.Set("metadata", metadata);
  return object;
}

// Loading a plugin reads hundreds of megabytes: off the calling thread.
class Registration final : public Napi::AsyncWorker {
 public:
  Registration(Napi::Env env, std::string name, std::string path, bool tries)
      : AsyncWorker(env), name_(std::move(name)), path_(std::move(path)), tries_(tries), deferred_(Napi::Promise::Deferred::New(env)) {}

  Napi::Promise promise() const { return deferred_.Promise(); }

 protected:
  // On a thread of the pool; what it throws becomes the rejection.
  void Execute() override {
    const OrtLibrary& library = OrtLibrary::opened();
    try {
      devices_ = ort::registerPlugin(library, name_, path_);
    } catch (const ort::PluginTaken&) {
      taken_ = true;
      throw;
    }
    if (tries_) ort::tryPlugin(library, name_);
  }

  void OnOK() override {
    Napi::Array list = Napi::Array::New(Env(), devices_.size());
    for (std::uint32_t index = 0; index < devices_.size(); ++index) list.Set(index, deviceObject(Env(), devices_[index]));
    deferred_.Resolve(list);
  }

  void OnError(const Napi::Error& error) override {
    if (taken_) error.Value().Set("code", "ERR_PLUGIN_TAKEN");
    deferred_.Reject(error.Value());
  }

 private:
  const std::string name_;
  const std::string path_;
  const bool tries_;
  const Napi::Promise::Deferred deferred_;
  std::vector<ProviderDevice> devices_;
  bool taken_ = false;
};

// (name, path, tries): registers a plugin, once for the process; a promise of its devices. `tries`: runs a model on it, too.
Napi::Value registerProvider(const Napi::CallbackInfo& info) {
  auto* registration = new Registration(info.Env(), info[0].ToString(), info[1].ToString(), info[2].ToBoolean());
  registration->Queue();  // deletes itself
  return registration->promise();
}

// The names of those that are built in.
Napi::Value builtInProviders(const Napi::CallbackInfo& info) {
  const std::vector<std::string> names = ort::builtInProviders(OrtLibrary::opened());
  Napi::Array list = Napi::Array::New(info.Env(), names.size());
  for (std::uint32_t index = 0; index < names.size(); ++index) list.Set(index, names[index]);
  return list;
}

}  // namespace

void exportProviders(Napi::Env env, Napi::Object exports) {
  exports.Set("registerProvider", Napi::Function::New<registerProvider>(env, "registerProvider"));
  exports.Set("builtInProviders", Napi::Function::New<builtInProviders>(env, "builtInProviders"));
}

}  // namespace zerohop
