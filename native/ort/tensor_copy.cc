#include "tensor_copy.h"

#include <cstring>
#include <new>

#include "type_names.h"

namespace zerohop::ort {

namespace {

std::vector<std::string> stringsOf(const OrtLibrary& library, OrtValue* value, std::size_t count) {
  std::size_t total = 0;
  library.check(library.api.GetStringTensorDataLength(value, &total));
  std::vector<char> bytes(total);
  std::vector<std::size_t> offsets(count);
  library.check(library.api.GetStringTensorContent(value, bytes.data(), total, offsets.data(), count));
  std::vector<std::string> strings;
  strings.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t end = index + 1 < count ? offsets[index + 1] : total;
    strings.emplace_back(bytes.data() + offsets[index], end - offsets[index]);
  }
  return strings;
}

}  // namespace

std::size_t byteLengthOf(ElementType type, std::size_t count) { return (count * bitsOf(type) + 7) / 8; }

std::size_t elementCount(const std::vector<std::int64_t>& dims) {
  std::size_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::size_t>(dim);
  return count;
}

Owned<OrtValue> valueOver(const OrtLibrary& library, void* bytes, ElementType type, const std::vector<std::int64_t>& dims) {
  const std::size_t byteLength = byteLengthOf(type, elementCount(dims));
  return own<OrtValue>(library, library.api.ReleaseValue, [&](OrtValue** out) {
    return library.api.CreateTensorWithDataAsOrtValue(library.cpuMemory, bytes, byteLength, dims.data(), dims.size(), type, out);
  });
}

Owned<OrtValue> valueOver(const OrtLibrary& library, TensorCopy& copy) {
  if (copy.type != ElementType::kString) return valueOver(library, copy.bytes.get(), copy.type, copy.dims);
  auto value = own<OrtValue>(library, library.api.ReleaseValue, [&](OrtValue** out) {
    return library.api.CreateTensorAsOrtValue(library.allocator, copy.dims.data(), copy.dims.size(), copy.type, out);
  });
  for (std::size_t index = 0; index < copy.strings.size(); ++index) {
    const std::string& text = copy.strings[index];
    char* buffer = nullptr;
    library.check(library.api.GetResizedStringTensorElementBuffer(value.get(), index, text.size(), &buffer));
    std::memcpy(buffer, text.data(), text.size());
  }
  return value;
}

TensorView viewOf(const OrtLibrary& library, OrtValue* value) {
  const OrtApi& api = library.api;
  ValueKind kind = ValueKind::kUnknown;
  library.check(api.GetValueType(value, &kind));
  if (kind != ValueKind::kTensor) throw OrtError("ONNX Runtime gave no tensor");
  const auto info = own<OrtTensorInfo>(library, api.ReleaseTensorTypeAndShapeInfo,
                                       [&](OrtTensorInfo** out) { return api.GetTensorTypeAndShape(value, out); });
  TensorView view;
  std::size_t rank = 0;
  library.check(api.GetTensorElementType(info.get(), &view.type));
  library.check(api.GetDimensionsCount(info.get(), &rank));
  view.dims.resize(rank);
  library.check(api.GetDimensions(info.get(), view.dims.data(), rank));
  if (view.type == ElementType::kString) return view;
  void* bytes = nullptr;
  library.check(api.GetTensorMutableData(value, &bytes));
  view.bytes = bytes;
  view.byteLength = byteLengthOf(view.type, elementCount(view.dims));
  return view;
}

TensorCopy copyOf(const OrtLibrary& library, OrtValue* value, const TensorView& view) {
  TensorCopy copy;
  copy.type = view.type;
  copy.dims = view.dims;
  if (view.type == ElementType::kString) {
    copy.strings = stringsOf(library, value, elementCount(view.dims));
    return copy;
  }
  copy.byteLength = view.byteLength;
  copy.bytes.reset(std::malloc(view.byteLength > 0 ? view.byteLength : 1));
  if (copy.bytes == nullptr) throw std::bad_alloc();
  if (view.byteLength > 0) std::memcpy(copy.bytes.get(), view.bytes, view.byteLength);
  return copy;
}

}  // namespace zerohop::ort
