#include "value_wrap.h"

#include "tensor_wrap.h"

namespace zerohop {

namespace {

using ort::ValueCopy;
using Kind = ValueCopy::Kind;

ValueCopy valueFrom(const Napi::Object& object) {
  ValueCopy value;
  const Napi::Value items = object.Get("items"), keys = object.Get("keys"), values = object.Get("values");
  if (items.IsArray()) {
    value.kind = Kind::kSequence;
    const Napi::Array list = items.As<Napi::Array>();
    for (std::uint32_t index = 0; index < list.Length(); ++index) {
      const Napi::Value item = list.Get(index);
      if (!item.IsObject()) throw Napi::TypeError::New(object.Env(), "items: expected values");
      value.items.push_back(valueFrom(item.As<Napi::Object>()));
    }
  } else if (keys.IsObject() && values.IsObject()) {
    value.kind = Kind::kMap;
    value.tensor = tensorFrom(keys.As<Napi::Object>());
    value.values = tensorFrom(values.As<Napi::Object>());
  } else {
    value.tensor = tensorFrom(object);
  }
  return value;
}

Napi::Object mapsObject(Napi::Env env, const ValueCopy& maps) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("keys", tensorObject(env, maps.tensor));
  object.Set("values", tensorObject(env, maps.values));
  if (maps.kind == Kind::kMap) return object;
  Napi::Array entries = Napi::Array::New(env, maps.entries.size());
  for (std::uint32_t index = 0; index < maps.entries.size(); ++index) entries.Set(index, static_cast<double>(maps.entries[index]));
  object.Set("entries", entries);
  return object;
}

}  // namespace

ort::ValueCopies valuesFrom(const Napi::Value& value) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "values: expected an array");
  const Napi::Array list = value.As<Napi::Array>();
  ort::ValueCopies values(list.Length());
  for (std::uint32_t index = 0; index < values.size(); ++index) {
    const Napi::Value each = list.Get(index);
    if (each.IsObject()) values[index] = valueFrom(each.As<Napi::Object>());
  }
  return values;
}

Napi::Object valueObject(Napi::Env env, const ValueCopy& value) {
  if (value.kind == Kind::kTensor) return tensorObject(env, value.tensor);
  if (value.kind == Kind::kMap || value.kind == Kind::kMaps) return mapsObject(env, value);
  Napi::Object object = Napi::Object::New(env);
  if (value.kind == Kind::kNothing) {
    object.Set("absent", true);
    return object;
  }
  Napi::Array items = Napi::Array::New(env, value.items.size());
  for (std::uint32_t index = 0; index < value.items.size(); ++index) items.Set(index, valueObject(env, value.items[index]));
  object.Set("items", items);
  return object;
}

}  // namespace zerohop
