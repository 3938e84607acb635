// Types in words, as JavaScript knows them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ort_library.h"

namespace zerohop::ort {

// onnxruntime-node's name of a type of elements; "element type 99" for one that has none here.
std::string nameOf(ElementType type);

// Of one element; 0 for strings, and for a type that is not carried.
std::size_t bitsOf(ElementType type);

std::optional<ElementType> elementTypeOf(const std::string& name);

// The type of an input or output: of a tensor that of its elements, else made up of such, as "seq(map(int64, float32))".
std::string nameOf(const OrtLibrary& library, const OrtTypeInfo* type);

}  // namespace zerohop::ort
