// The stand-in's sequences, maps and optional values: their types, their parts, and the models that have them.
#pragma once

#include <algorithm>

#include "fake_types.h"

namespace fake {

inline std::shared_ptr<OrtTypeInfo> floatInfo() { return std::make_shared<OrtTypeInfo>(OrtTypeInfo{{ElementType::kFloat32, {-1, 4}, {"N", ""}}}); }

inline std::shared_ptr<OrtTypeInfo> infoOf(ValueKind kind, std::shared_ptr<OrtTypeInfo> part, ElementType key = ElementType::kUndefined) {
  return std::make_shared<OrtTypeInfo>(OrtTypeInfo{{}, kind, key, std::move(part)});
}

// The type of the input or the output of a model; nullptr for one of tensors.
inline std::shared_ptr<OrtTypeInfo> structuredInfo(const std::string& model, bool input) {
  if (model == "scores" || model == "names") {
    return input ? nullptr : infoOf(ValueKind::kSequence, infoOf(ValueKind::kMap, floatInfo(), model == "names" ? ElementType::kString : ElementType::kInt64));
  }
  if (model == "rows") return input ? nullptr : infoOf(ValueKind::kSequence, floatInfo());
  if (model == "maybe") return input ? nullptr : infoOf(ValueKind::kOptional, floatInfo());
  if (model == "first") return input ? infoOf(ValueKind::kSequence, floatInfo()) : nullptr;
  if (model == "lookup") return infoOf(ValueKind::kMap, floatInfo(), ElementType::kInt64);
  return model == "sparse" && !input ? infoOf(ValueKind::kSparseTensor, nullptr) : nullptr;
}

inline OrtValue tensor(ElementType type, std::vector<std::int64_t> dims) {
  std::unique_ptr<OrtValue> made(make(type, std::move(dims)));
  --fakeOrtCounts.values;
  return *made;
}

inline OrtValue composed(ValueKind kind, std::vector<OrtValue> parts) {
  OrtValue value;
  value.kind = kind;
  value.parts = std::move(parts);
  return value;
}

inline OrtValue rowOf(const OrtValue& x, std::int64_t row) {
  OrtValue one = tensor(x.type, {x.dims[1]});
  const auto* from = static_cast<const float*>(x.bytes) + row * x.dims[1];
  std::copy_n(from, x.dims[1], static_cast<float*>(one.bytes));
  return one;
}

// Of each row a map: the place (as a number, or as a letter) to the value.
inline OrtValue scoresOf(const OrtValue& row, bool named) {
  OrtValue keys = tensor(named ? ElementType::kString : ElementType::kInt64, {row.dims[0]});
  for (std::int64_t at = 0; at < row.dims[0]; ++at) {
    if (named) keys.own->strings[static_cast<std::size_t>(at)] = std::string(1, static_cast<char>('a' + at));
    else static_cast<std::int64_t*>(keys.bytes)[at] = at;
  }
  return composed(ValueKind::kMap, {keys, row});
}

// What a model gives that is made of such values; false for another one.
inline bool runStructured(const std::string& model, const OrtValue& x, OrtValue& y) {
  if (model == "scores" || model == "names" || model == "rows") {
    std::vector<OrtValue> rows;
    for (std::int64_t row = 0; row < x.dims[0]; ++row) rows.push_back(model == "rows" ? rowOf(x, row) : scoresOf(rowOf(x, row), model == "names"));
    y = composed(ValueKind::kSequence, std::move(rows));
  } else if (model == "maybe") {
    if (static_cast<const float*>(x.bytes)[0] < 0) y.kind = ValueKind::kUnknown;  // it is not there
    else y = x;
  } else if (model == "first") {
    y = x.parts.at(0);
  } else if (model == "lookup") {
    y = x;
  } else if (model == "sparse") {
    y = composed(ValueKind::kSparseTensor, {});
  } else {
    return false;
  }
  return true;
}

inline OrtStatus* CastTypeInfoToSequenceTypeInfo(const OrtTypeInfo* type, const OrtSequenceInfo** out) {
  *out = reinterpret_cast<const OrtSequenceInfo*>(type);
  return nullptr;
}
inline OrtStatus* CastTypeInfoToMapTypeInfo(const OrtTypeInfo* type, const OrtMapInfo** out) {
  *out = reinterpret_cast<const OrtMapInfo*>(type);
  return nullptr;
}
inline OrtStatus* CastTypeInfoToOptionalTypeInfo(const OrtTypeInfo* type, const OrtOptionalInfo** out) {
  *out = reinterpret_cast<const OrtOptionalInfo*>(type);
  return nullptr;
}
inline OrtStatus* partOf(const void* type, OrtTypeInfo** out) {
  ++fakeOrtCounts.infos;
  *out = new OrtTypeInfo(*static_cast<const OrtTypeInfo*>(type)->part);
  return nullptr;
}
inline OrtStatus* GetSequenceElementType(const OrtSequenceInfo* sequence, OrtTypeInfo** out) { return partOf(sequence, out); }
inline OrtStatus* GetMapValueType(const OrtMapInfo* map, OrtTypeInfo** out) { return partOf(map, out); }
inline OrtStatus* GetOptionalContainedTypeInfo(const OrtOptionalInfo* optional, OrtTypeInfo** out) { return partOf(optional, out); }
inline OrtStatus* GetMapKeyType(const OrtMapInfo* map, ElementType* out) {
  *out = reinterpret_cast<const OrtTypeInfo*>(map)->key;
  return nullptr;
}
inline OrtStatus* HasValue(const OrtValue* value, int* out) {
  *out = value->kind != ValueKind::kUnknown;
  return nullptr;
}
inline OrtStatus* GetValueCount(const OrtValue* value, std::size_t* out) {
  *out = value->parts.size();
  return nullptr;
}
inline OrtStatus* GetValue(const OrtValue* value, int index, OrtAllocator*, OrtValue** out) {
  ++fakeOrtCounts.values;
  *out = new OrtValue(value->parts.at(static_cast<std::size_t>(index)));
  return nullptr;
}
inline OrtStatus* CreateValue(const OrtValue* const* parts, std::size_t count, ValueKind kind, OrtValue** out) {
  if (count == 0) return failure("at least one value is expected");
  std::vector<OrtValue> all;
  for (std::size_t index = 0; index < count; ++index) all.push_back(*parts[index]);
  ++fakeOrtCounts.values;
  *out = new OrtValue(composed(kind, std::move(all)));
  return nullptr;
}

}  // namespace fake
