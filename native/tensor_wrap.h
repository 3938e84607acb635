// Tensors between JavaScript and ONNX Runtime, in the form in which they travel: `{ type, dims, data }`.
#pragma once

#include <napi.h>

#include <optional>
#include <vector>

#include "ort/session.h"
#include "ort/tensor_copy.h"

namespace zerohop {

// ONNX Runtime's name of a type of elements; "element type 99" for one that has none here.
std::string nameOf(ort::ElementType type);

std::vector<std::int64_t> dimsFrom(const Napi::Value& value);

// A list of tensors of which `null` and `undefined` are absent. Bytes and strings are copied.
std::vector<std::optional<ort::TensorCopy>> tensorsFrom(const Napi::Value& list);

Napi::Object tensorObject(Napi::Env env, const ort::TensorCopy& tensor);

// What a session says of its inputs or outputs: `[{ name, type, shape }]`.
Napi::Array describe(Napi::Env env, const std::vector<ort::ValueInfo>& values);

}  // namespace zerohop
