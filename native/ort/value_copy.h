// Values of every kind outside ONNX Runtime's memory, as a tensor is in a TensorCopy.
#pragma once

#include <optional>
#include <vector>

#include "tensor_copy.h"

namespace zerohop::ort {

struct ValueCopy {
  enum class Kind {
    kTensor,
    kSequence,
    kMap,
    kMaps,     // a sequence of maps: what a classifier says of each row
    kNothing,  // an optional value that is not there
  };
  Kind kind = Kind::kTensor;
  TensorCopy tensor;                 // of maps the keys
  TensorCopy values;                 // of maps; those of several lie one behind the other, as the keys do
  std::vector<std::size_t> entries;  // of each map
  std::vector<ValueCopy> items;      // of a sequence
};

// Copies a value that a run gave. Throws OrtError for one that is not of these kinds.
ValueCopy copyOf(const OrtLibrary& library, OrtValue* value);

// A value for a run; the copy must outlive it. Throws OrtError for what cannot be given, as nothing.
Owned<OrtValue> valueOver(const OrtLibrary& library, ValueCopy& copy);

// What comes beside a slot, or leaves beside it, by input or output.
using ValueCopies = std::vector<std::optional<ValueCopy>>;

}  // namespace zerohop::ort
