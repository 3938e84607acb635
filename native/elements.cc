#include "elements.h"

#include <string>

namespace zerohop {

std::size_t bytesOfElement(napi_typedarray_type type) {
  switch (type) {
    case napi_int16_array:
    case napi_uint16_array: return 2;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array: return 4;
    case napi_float64_array:
    case napi_bigint64_array:
    case napi_biguint64_array: return 8;
    default: return 1;
  }
}

Elements elementsOf(const Napi::CallbackInfo& info, std::size_t index, const char* name) {
  if (!info[index].IsTypedArray()) throw Napi::TypeError::New(info.Env(), std::string(name) + ": expected a typed array");
  Elements elements{};
  void* data = nullptr;
  const napi_status status = napi_get_typedarray_info(info.Env(), info[index], &elements.type, &elements.count, &data, nullptr, nullptr);
  if (status != napi_ok) throw Napi::Error::New(info.Env());
  elements.data = static_cast<std::byte*>(data);
  elements.bytes = elements.count * bytesOfElement(elements.type);
  return elements;
}

Elements elementsOf(const Napi::CallbackInfo& info, std::size_t index, const char* name, napi_typedarray_type type, std::size_t count) {
  const Elements elements = elementsOf(info, index, name);
  if (elements.type != type) throw Napi::TypeError::New(info.Env(), std::string(name) + ": expected elements of another type");
  if (elements.count == count) return elements;
  throw Napi::RangeError::New(info.Env(), std::string(name) + ": expected " + std::to_string(count) + " elements, received " +
                                              std::to_string(elements.count));
}

}  // namespace zerohop
