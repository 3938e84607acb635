#include "run_arguments.h"

#include "tensor_wrap.h"

namespace zerohop {

using ort::Place;
using ort::SessionSetting;

std::vector<SessionSetting> settingsFrom(const Napi::Value& value) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "settings: expected an array");
  const Napi::Array list = value.As<Napi::Array>();
  std::vector<SessionSetting> settings(list.Length());
  for (std::uint32_t index = 0; index < settings.size(); ++index) {
    const Napi::Object each = list.Get(index).ToObject();
    const auto text = [&](const char* name) -> std::string {
      const Napi::Value given = each.Get(name);
      return given.IsUndefined() ? std::string() : given.ToString().Utf8Value();
    };
    settings[index] = {text("name"), text("key"), text("value"), {}};
    if (each.Get("bytes").IsTypedArray()) {
      const Napi::Uint8Array bytes = each.Get("bytes").As<Napi::Uint8Array>();
      settings[index].bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.Data()), bytes.ByteLength());
    }
    if (!each.Get("entries").IsObject()) continue;
    const Napi::Object entries = each.Get("entries").As<Napi::Object>();
    const Napi::Array keys = entries.GetPropertyNames();
    for (std::uint32_t at = 0; at < keys.Length(); ++at) {
      settings[index].entries.emplace_back(keys.Get(at).ToString(), entries.Get(keys.Get(at)).ToString());
    }
  }
  return settings;
}

std::vector<Place> placesFrom(const Napi::Value& value) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "places: expected an array");
  const Napi::Array list = value.As<Napi::Array>();
  std::vector<Place> places(list.Length());
  for (std::uint32_t index = 0; index < places.size(); ++index) {
    const Napi::Value each = list.Get(index);
    if (each.IsNull()) places[index].kind = Place::Kind::kApart;
    if (!each.IsObject()) continue;
    const Napi::Object place = each.As<Napi::Object>();
    places[index] = {Place::Kind::kInSlot, static_cast<std::size_t>(place.Get("offset").ToNumber().Int64Value()),
                     dimsFrom(place.Get("dims"))};
  }
  return places;
}

}  // namespace zerohop
