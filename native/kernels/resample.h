// Makes an image smaller: 8-bit RGB, a pixel after the other, through a filter in each of the two directions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/resample_weights.h"

namespace zerohop::kernels {

// Both axes make sense (`isWithinSource`). `source` has rows.length rows of columns.length pixels; `target` gets rows.count rows of
// columns.count pixels. The rows begin a stride of bytes apart. Throws std::bad_alloc.
void resample(const std::uint8_t* source, std::size_t sourceStride, const Axis& columns, const Axis& rows, Filter filter,
              std::uint8_t* target, std::size_t targetStride);

// The same, one number after the other: what it is measured against, and what is done where the processor has nothing better.
void resampleByNumber(const std::uint8_t* source, std::size_t sourceStride, const Axis& columns, const Axis& rows, Filter filter,
                      std::uint8_t* target, std::size_t targetStride);

}  // namespace zerohop::kernels
