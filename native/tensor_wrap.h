// Tensors between JavaScript and ONNX Runtime, in the form in which they travel: `{ type, dims, data }`.
#pragma once

#include <napi.h>

#include <vector>

#include "ort/session.h"
#include "ort/tensor_copy.h"

namespace zerohop {

std::vector<std::int64_t> dimsFrom(const Napi::Value& value);

// Bytes and strings are copied.
ort::TensorCopy tensorFrom(const Napi::Object& object);

Napi::Object tensorObject(Napi::Env env, const ort::TensorCopy& tensor);

// What a session says of its inputs or outputs: `[{ name, type, shape }]`.
Napi::Array describe(Napi::Env env, const std::vector<ort::ValueInfo>& values);

}  // namespace zerohop
