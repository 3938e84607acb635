// Values of every kind between JavaScript and ONNX Runtime, in the form in which they travel: a tensor as tensor_wrap.h has
// it, a sequence `{ items }`, a map `{ keys, values }` (tensors), a sequence of maps `{ keys, values, entries }` with those
// of all maps one behind the other, and nothing `{ absent }`.
#pragma once

#include <napi.h>

#include "ort/value_copy.h"

namespace zerohop {

// A list of values of which `null` and `undefined` are not given. Bytes and strings are copied.
ort::ValueCopies valuesFrom(const Napi::Value& list);

Napi::Object valueObject(Napi::Env env, const ort::ValueCopy& value);

}  // namespace zerohop
