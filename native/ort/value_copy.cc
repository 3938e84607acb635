#include "value_copy.h"

#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace zerohop::ort {

namespace {

using Kind = ValueCopy::Kind;

ValueKind kindOf(const OrtLibrary& library, OrtValue* value) {
  ValueKind kind = ValueKind::kUnknown;
  library.check(library.api.GetValueType(value, &kind));
  return kind;
}

TensorCopy tensorOf(const OrtLibrary& library, OrtValue* value) { return copyOf(library, value, viewOf(library, value)); }

Owned<OrtValue> partOf(const OrtLibrary& library, OrtValue* value, std::size_t index) {
  return own<OrtValue>(library, library.api.ReleaseValue, [&](OrtValue** out) {
    return library.api.GetValue(value, static_cast<int>(index), library.allocator, out);
  });
}

// Tensors of one dimension, one behind the other.
TensorCopy joined(std::vector<TensorCopy>& parts) {
  TensorCopy all;
  std::int64_t count = 0;
  for (const TensorCopy& part : parts) {
    count += part.dims.at(0);
    all.byteLength += part.byteLength;
  }
  all.type = parts.front().type;
  all.dims = {count};
  all.bytes.reset(std::malloc(all.byteLength > 0 ? all.byteLength : 1));
  if (all.bytes == nullptr) throw std::bad_alloc();
  auto* to = static_cast<char*>(all.bytes.get());
  for (TensorCopy& part : parts) {
    if (part.byteLength > 0) std::memcpy(to, part.bytes.get(), part.byteLength);
    to += part.byteLength;
    std::move(part.strings.begin(), part.strings.end(), std::back_inserter(all.strings));
  }
  return all;
}

// A map gives its keys and its values as tensors.
ValueCopy copyOfMaps(const OrtLibrary& library, const std::vector<OrtValue*>& maps, Kind kind) {
  std::vector<TensorCopy> keys, values;
  ValueCopy copy;
  copy.kind = kind;
  for (OrtValue* map : maps) {
    keys.push_back(tensorOf(library, partOf(library, map, 0).get()));
    values.push_back(tensorOf(library, partOf(library, map, 1).get()));
    if (keys.back().dims.size() != 1 || keys.back().dims != values.back().dims) throw OrtError("ONNX Runtime gave a map of keys without values");
    copy.entries.push_back(static_cast<std::size_t>(keys.back().dims[0]));
  }
  copy.tensor = joined(keys);
  copy.values = joined(values);
  return copy;
}

ValueCopy copyOfSequence(const OrtLibrary& library, OrtValue* value) {
  std::size_t count = 0;
  library.check(library.api.GetValueCount(value, &count));
  std::vector<Owned<OrtValue>> parts;
  std::vector<OrtValue*> pointers;
  for (std::size_t index = 0; index < count; ++index) {
    parts.push_back(partOf(library, value, index));
    pointers.push_back(parts.back().get());
  }
  if (count > 0 && kindOf(library, pointers.front()) == ValueKind::kMap) return copyOfMaps(library, pointers, Kind::kMaps);
  ValueCopy copy;
  copy.kind = Kind::kSequence;
  for (OrtValue* part : pointers) copy.items.push_back(copyOf(library, part));
  return copy;
}

Owned<OrtValue> valueOf(const OrtLibrary& library, const std::vector<Owned<OrtValue>>& parts, ValueKind kind) {
  std::vector<const OrtValue*> pointers;
  for (const auto& part : parts) pointers.push_back(part.get());
  return own<OrtValue>(library, library.api.ReleaseValue, [&](OrtValue** out) {
    return library.api.CreateValue(pointers.data(), pointers.size(), kind, out);
  });
}

}  // namespace

ValueCopy copyOf(const OrtLibrary& library, OrtValue* value) {
  ValueCopy copy;
  int has = 0;
  library.check(library.api.HasValue(value, &has));
  if (has == 0) {
    copy.kind = Kind::kNothing;
    return copy;
  }
  switch (kindOf(library, value)) {
    case ValueKind::kSequence: return copyOfSequence(library, value);
    case ValueKind::kMap: return copyOfMaps(library, {value}, Kind::kMap);
    default: break;
  }
  copy.tensor = tensorOf(library, value);
  return copy;
}

Owned<OrtValue> valueOver(const OrtLibrary& library, ValueCopy& copy) {
  std::vector<Owned<OrtValue>> parts;
  switch (copy.kind) {
    case Kind::kTensor: return valueOver(library, copy.tensor);
    case Kind::kSequence:
      for (ValueCopy& item : copy.items) parts.push_back(valueOver(library, item));
      return valueOf(library, parts, ValueKind::kSequence);
    case Kind::kMap:
      parts.push_back(valueOver(library, copy.tensor));
      parts.push_back(valueOver(library, copy.values));
      return valueOf(library, parts, ValueKind::kMap);
    default: throw OrtError("such a value cannot be given to a run");
  }
}

}  // namespace zerohop::ort
