#include "kernels/rows.h"

#include <algorithm>
#include <cstring>

namespace zerohop::kernels {

namespace {

// Doubled, so that nearly all of it is copied in long pieces.
void fillOne(std::byte* target, std::size_t bytes, const std::byte* element, std::size_t elementBytes) {
  const bool even = std::all_of(element, element + elementBytes, [=](std::byte each) { return each == *element; });
  if (even) {
    std::memset(target, static_cast<int>(*element), bytes);
    return;
  }
  std::size_t done = std::min(bytes, elementBytes);
  std::memcpy(target, element, done);
  for (; done < bytes; done += std::min(done, bytes - done)) std::memcpy(target + done, target, std::min(done, bytes - done));
}

}  // namespace

void copyRows(const std::byte* source, std::size_t sourceStride, std::byte* target, std::size_t targetStride,
              std::size_t rowBytes, std::size_t rows) {
  if (sourceStride == rowBytes && targetStride == rowBytes) {
    std::memmove(target, source, rowBytes * rows);
    return;
  }
  for (std::size_t row = 0; row < rows; ++row) std::memmove(target + row * targetStride, source + row * sourceStride, rowBytes);
}

void fillRows(std::byte* target, std::size_t stride, std::size_t rowBytes, std::size_t rows, const std::byte* element,
              std::size_t elementBytes) {
  if (rows == 0 || rowBytes == 0) return;
  if (stride == rowBytes) return fillOne(target, rowBytes * rows, element, elementBytes);
  fillOne(target, rowBytes, element, elementBytes);
  for (std::size_t row = 1; row < rows; ++row) std::memmove(target + row * stride, target, rowBytes);
}

}  // namespace zerohop::kernels
