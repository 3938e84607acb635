// Which pixels of a line a pixel of a shorter line is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/filter.h"

namespace zerohop::kernels {

// One direction of a resize. Only the pixels of the result that are wanted have a place in it.
struct Axis {
  std::size_t length;  // pixels of the source, at least one
  double shrink;       // pixels of the source to one of the result, at least 1; 1 leaves them as they are, whatever the filter
  double start;        // where in the source the middle of the first wanted pixel lies; that of a source's first pixel is 0
  std::size_t count;   // how many are wanted
};

// Fixed-point weights, of each wanted pixel as many: those of a pixel add up to nearly kOne. They are those of libvips, also where
// others were a little better: the picture is to be the same.
struct Weights {
  static constexpr int kShift = 12;
  static constexpr std::int32_t kOne = 1 << kShift;

  std::size_t taps;                  // the last ones may count nothing, and lie outside of the source
  std::vector<std::size_t> first;    // of each wanted pixel: the pixel of the source that the first tap is on
  std::vector<std::int16_t> values;  // `taps` of each wanted pixel
};

// Whether an axis makes sense: each of the wanted pixels has its middle on a pixel of the source.
bool isWithinSource(const Axis& axis);

// Of an axis that makes sense; the number of taps is a multiple of `tapGroup`. A source goes on beyond its ends with its
// outermost pixels.
Weights weightsOf(const Axis& axis, Filter filter, std::size_t tapGroup);

}  // namespace zerohop::kernels
