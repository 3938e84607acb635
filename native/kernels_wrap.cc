#include "kernels_wrap.h"

#include <string>

#include "arguments.h"
#include "elements.h"
#include "kernels/pixels.h"
#include "kernels/rows.h"

namespace zerohop {

namespace {

using kernels::Half;
using kernels::Normalisation;

std::size_t sizeOf(const Napi::CallbackInfo& info, std::size_t index, const char* name) {
  return static_cast<std::size_t>(wholeNumber(info, index, name, 0, std::int64_t{1} << 40));
}

constexpr std::size_t kMostRows = std::size_t{1} << 22;  // by which no product of sizes overflows

// Where rows begin whose last one ends within `elements`.
std::byte* rowsIn(const Napi::CallbackInfo& info, const Elements& elements, const char* name, std::size_t offset, std::size_t stride,
                  std::size_t rowBytes, std::size_t rows) {
  const bool fits = rows <= kMostRows && offset + (rows == 0 ? 0 : (rows - 1) * stride + rowBytes) <= elements.bytes;
  if (!fits) throw Napi::RangeError::New(info.Env(), std::string(name) + ": the rows do not lie in it");
  return elements.data + offset;
}

template <class Element>
void writePlanes(const Napi::CallbackInfo& info, const Elements& rgb, const Elements& planes) {
  const auto* table = reinterpret_cast<const Element*>(elementsOf(info, 2, "table", planes.type, 768).data);
  const auto* numbers = reinterpret_cast<const double*>(elementsOf(info, 3, "factors", napi_float64_array, 6).data);
  const Normalisation<Element> to{table, {numbers[0], numbers[1], numbers[2]}, {numbers[3], numbers[4], numbers[5]}, info[4].ToBoolean()};
  kernels::writePlanes(reinterpret_cast<const std::uint8_t*>(rgb.data), rgb.count / 3, to, reinterpret_cast<Element*>(planes.data));
}

// (rgb, planes, table, factors, swapped)
void writePlanes(const Napi::CallbackInfo& info) {
  const Elements rgb = elementsOf(info, 0, "rgb");
  const Elements planes = elementsOf(info, 1, "planes");
  if (bytesOfElement(rgb.type) != 1 || rgb.count % 3 != 0) throw Napi::RangeError::New(info.Env(), "rgb: expected three bytes for each pixel");
  if (planes.count != rgb.count) throw Napi::RangeError::New(info.Env(), "planes: expected as many elements as rgb has");
  if (planes.type == napi_float32_array) return writePlanes<float>(info, rgb, planes);
  if (planes.type == napi_uint16_array) return writePlanes<Half>(info, rgb, planes);
  throw Napi::TypeError::New(info.Env(), "planes: expected a Float32Array or a Uint16Array");
}

// (source, offset, stride, target, offset, stride, rowBytes, rows); all but the arrays in bytes
void copyRows(const Napi::CallbackInfo& info) {
  const Elements source = elementsOf(info, 0, "source");
  const Elements target = elementsOf(info, 3, "target");
  const std::size_t sourceStride = sizeOf(info, 2, "sourceStride"), targetStride = sizeOf(info, 5, "targetStride");
  const std::size_t rowBytes = sizeOf(info, 6, "rowBytes"), rows = sizeOf(info, 7, "rows");
  const std::byte* from = rowsIn(info, source, "source", sizeOf(info, 1, "sourceOffset"), sourceStride, rowBytes, rows);
  std::byte* to = rowsIn(info, target, "target", sizeOf(info, 4, "targetOffset"), targetStride, rowBytes, rows);
  if (rows > 0 && rowBytes > 0) kernels::copyRows(from, sourceStride, to, targetStride, rowBytes, rows);
}

// (target, offset, stride, rowBytes, rows, element); all but the arrays in bytes
void fillRows(const Napi::CallbackInfo& info) {
  const Elements target = elementsOf(info, 0, "target");
  const Elements element = elementsOf(info, 5, "element");
  const std::size_t stride = sizeOf(info, 2, "stride"), rowBytes = sizeOf(info, 3, "rowBytes"), rows = sizeOf(info, 4, "rows");
  if (element.count != 1 || rowBytes % element.bytes != 0) throw Napi::RangeError::New(info.Env(), "element: expected one, of which a row is made");
  std::byte* to = rowsIn(info, target, "target", sizeOf(info, 1, "offset"), stride, rowBytes, rows);
  if (rows > 0 && rowBytes > 0) kernels::fillRows(to, stride, rowBytes, rows, element.data, element.bytes);
}

}  // namespace

void exportKernels(Napi::Env env, Napi::Object exports) {
  exports.Set("writePlanes", Napi::Function::New<writePlanes>(env, "writePlanes"));
  exports.Set("copyRows", Napi::Function::New<copyRows>(env, "copyRows"));
  exports.Set("fillRows", Napi::Function::New<fillRows>(env, "fillRows"));
  exports.Set("vectorInstructions", kernels::vectorInstructions());
}

}  // namespace zerohop
