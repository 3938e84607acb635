#include "tensor_wrap.h"

#include <cstring>
#include <new>

#include "ort/type_names.h"

namespace zerohop {

namespace {

using ort::ElementType;
using ort::TensorCopy;

ElementType typeFrom(const std::string& name, Napi::Env env) {
  const auto type = ort::elementTypeOf(name);
  if (!type) throw Napi::TypeError::New(env, "type: expected the type of a tensor, received " + name);
  return *type;
}

// In memory of JavaScript's own: a buffer over foreign memory could not be transferred to another thread.
Napi::Value bytesOf(Napi::Env env, const TensorCopy& tensor) {
  Napi::ArrayBuffer buffer = Napi::ArrayBuffer::New(env, tensor.byteLength);
  if (tensor.byteLength > 0) std::memcpy(buffer.Data(), tensor.bytes.get(), tensor.byteLength);
  return buffer;
}

Napi::Array dimsArray(Napi::Env env, const std::vector<std::int64_t>& dims) {
  Napi::Array array = Napi::Array::New(env, dims.size());
  for (std::uint32_t axis = 0; axis < dims.size(); ++axis) array.Set(axis, static_cast<double>(dims[axis]));
  return array;
}

}  // namespace

std::vector<std::int64_t> dimsFrom(const Napi::Value& value) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "dims: expected an array");
  const Napi::Array array = value.As<Napi::Array>();
  std::vector<std::int64_t> dims(array.Length());
  for (std::uint32_t axis = 0; axis < dims.size(); ++axis) {
    dims[axis] = array.Get(axis).ToNumber().Int64Value();
    if (dims[axis] < 0) throw Napi::RangeError::New(value.Env(), "dims: expected lengths of 0 or more");
  }
  return dims;
}

TensorCopy tensorFrom(const Napi::Object& object) {
  TensorCopy tensor;
  tensor.type = typeFrom(object.Get("type").ToString(), object.Env());
  tensor.dims = dimsFrom(object.Get("dims"));
  const Napi::Value data = object.Get("data");
  const std::size_t count = ort::elementCount(tensor.dims);
  if (tensor.type == ElementType::kString) {
    const Napi::Array strings = data.As<Napi::Array>();
    if (!data.IsArray() || strings.Length() != count) throw Napi::TypeError::New(object.Env(), "data: expected a string for each element");
    tensor.strings.reserve(count);
    for (std::uint32_t index = 0; index < count; ++index) tensor.strings.push_back(strings.Get(index).ToString());
    return tensor;
  }
  if (!data.IsArrayBuffer()) throw Napi::TypeError::New(object.Env(), "data: expected an ArrayBuffer");
  Napi::ArrayBuffer buffer = data.As<Napi::ArrayBuffer>();
  tensor.byteLength = ort::byteLengthOf(tensor.type, count);
  if (buffer.ByteLength() != tensor.byteLength) {
    throw Napi::RangeError::New(object.Env(), "data: expected " + std::to_string(tensor.byteLength) + " bytes, received " +
                                                  std::to_string(buffer.ByteLength()));
  }
  tensor.bytes.reset(std::malloc(tensor.byteLength > 0 ? tensor.byteLength : 1));
  if (tensor.bytes == nullptr) throw Napi::Error::New(object.Env(), "there is no memory for an input");
  if (tensor.byteLength > 0) std::memcpy(tensor.bytes.get(), buffer.Data(), tensor.byteLength);
  return tensor;
}

Napi::Object tensorObject(Napi::Env env, const TensorCopy& tensor) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("type", ort::nameOf(tensor.type));
  object.Set("dims", dimsArray(env, tensor.dims));
  if (tensor.type != ElementType::kString) {
    object.Set("data", bytesOf(env, tensor));
    return object;
  }
  Napi::Array strings = Napi::Array::New(env, tensor.strings.size());
  for (std::uint32_t index = 0; index < tensor.strings.size(); ++index) strings.Set(index, tensor.strings[index]);
  object.Set("data", strings);
  return object;
}

Napi::Array describe(Napi::Env env, const std::vector<ort::ValueInfo>& values) {
  Napi::Array list = Napi::Array::New(env, values.size());
  for (std::uint32_t index = 0; index < values.size(); ++index) {
    const ort::ValueInfo& info = values[index];
    Napi::Array shape = Napi::Array::New(env, info.dims.size());
    for (std::uint32_t axis = 0; axis < info.dims.size(); ++axis) {
      if (info.dims[axis] < 0) shape.Set(axis, info.symbols[axis]);
      else shape.Set(axis, static_cast<double>(info.dims[axis]));
    }
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", info.name);
    object.Set("type", info.typeName);
    object.Set("shape", shape);
    list.Set(index, object);
  }
  return list;
}

}  // namespace zerohop
