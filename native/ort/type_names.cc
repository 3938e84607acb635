#include "type_names.h"

#include <iterator>

namespace zerohop::ort {

namespace {

struct TypeEntry {
  const char* name;
  std::size_t bits;  // of an element; 0 for what is not carried as bytes
};

// By number. The last three are not carried, but named.
constexpr TypeEntry kTypes[] = {
    {"undefined", 0}, {"float32", 32}, {"uint8", 8}, {"int8", 8}, {"uint16", 16}, {"int16", 16}, {"int32", 32}, {"int64", 64},
    {"string", 0}, {"bool", 8}, {"float16", 16}, {"float64", 64}, {"uint32", 32}, {"uint64", 64}, {"complex64", 64},
    {"complex128", 128}, {"bfloat16", 16}, {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8},
    {"uint4", 4}, {"int4", 4}, {"float4e2m1", 4}, {"uint2", 0}, {"int2", 0}, {"float8e8m0", 0}};

std::string nameOfTensor(const OrtLibrary& library, const OrtTypeInfo* type) {
  const OrtTensorInfo* tensor = nullptr;  // part of `type`, as are those below
  ElementType element = ElementType::kUndefined;
  library.check(library.api.CastTypeInfoToTensorInfo(type, &tensor));
  library.check(library.api.GetTensorElementType(tensor, &element));
  return nameOf(element);
}

// `get` gives the type of what the value holds.
template <typename Get>
std::string nameOfPart(const OrtLibrary& library, Get get) {
  return nameOf(library, own<OrtTypeInfo>(library, library.api.ReleaseTypeInfo, get).get());
}

std::string nameOfSequence(const OrtLibrary& library, const OrtTypeInfo* type) {
  const OrtSequenceInfo* sequence = nullptr;
  library.check(library.api.CastTypeInfoToSequenceTypeInfo(type, &sequence));
  return "seq(" + nameOfPart(library, [&](OrtTypeInfo** out) { return library.api.GetSequenceElementType(sequence, out); }) + ")";
}

std::string nameOfMap(const OrtLibrary& library, const OrtTypeInfo* type) {
  const OrtMapInfo* map = nullptr;
  ElementType key = ElementType::kUndefined;
  library.check(library.api.CastTypeInfoToMapTypeInfo(type, &map));
  library.check(library.api.GetMapKeyType(map, &key));
  const std::string value = nameOfPart(library, [&](OrtTypeInfo** out) { return library.api.GetMapValueType(map, out); });
  return "map(" + nameOf(key) + ", " + value + ")";
}

std::string nameOfOptional(const OrtLibrary& library, const OrtTypeInfo* type) {
  const OrtOptionalInfo* optional = nullptr;
  library.check(library.api.CastTypeInfoToOptionalTypeInfo(type, &optional));
  return "optional(" + nameOfPart(library, [&](OrtTypeInfo** out) { return library.api.GetOptionalContainedTypeInfo(optional, out); }) + ")";
}

}  // namespace

std::string nameOf(ElementType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(kTypes) ? kTypes[number].name : "element type " + std::to_string(number);
}

std::size_t bitsOf(ElementType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(kTypes) ? kTypes[number].bits : 0;
}

std::optional<ElementType> elementTypeOf(const std::string& name) {
  for (std::size_t type = 0; type < std::size(kTypes); ++type) {
    if (name == kTypes[type].name) return static_cast<ElementType>(type);
  }
  return std::nullopt;
}

std::string nameOf(const OrtLibrary& library, const OrtTypeInfo* type) {
  ValueKind kind = ValueKind::kUnknown;
  library.check(library.api.GetOnnxTypeFromTypeInfo(type, &kind));
  switch (kind) {
    case ValueKind::kTensor: return nameOfTensor(library, type);
    case ValueKind::kSequence: return nameOfSequence(library, type);
    case ValueKind::kMap: return nameOfMap(library, type);
    case ValueKind::kOptional: return nameOfOptional(library, type);
    case ValueKind::kSparseTensor: return "a sparse tensor";
    default: return "an opaque value";
  }
}

}  // namespace zerohop::ort
