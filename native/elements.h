// Typed arrays that JavaScript hands over, checked as arguments are.
#pragma once

#include <napi.h>

#include <cstddef>

namespace zerohop {

// The elements of a typed array, as they lie in memory.
struct Elements {
  napi_typedarray_type type;
  std::byte* data;
  std::size_t count;
  std::size_t bytes;
};

std::size_t bytesOfElement(napi_typedarray_type type);

// The argument at `index`, a typed array.
Elements elementsOf(const Napi::CallbackInfo& info, std::size_t index, const char* name);

// The same, with so many elements of that type.
Elements elementsOf(const Napi::CallbackInfo& info, std::size_t index, const char* name, napi_typedarray_type type, std::size_t count);

}  // namespace zerohop
