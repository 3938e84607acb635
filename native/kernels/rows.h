// Rows of one length that lie a stride apart: copied from place to place, and filled up.
#pragma once

#include <cstddef>

namespace zerohop::kernels {

// Source and target may be the same memory where the target comes first, and its rows lie no further apart.
void copyRows(const std::byte* source, std::size_t sourceStride, std::byte* target, std::size_t targetStride,
              std::size_t rowBytes, std::size_t rows);

// Fills rows with an element of 1, 2, 4 or 8 bytes, of which `rowBytes` and `stride` are multiples; rows may overlap.
void fillRows(std::byte* target, std::size_t stride, std::size_t rowBytes, std::size_t rows, const std::byte* element,
              std::size_t elementBytes);

}  // namespace zerohop::kernels
