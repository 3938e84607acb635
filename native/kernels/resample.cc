#include "kernels/resample.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/resample_scalar.h"

#if defined(__x86_64__) || defined(_M_X64)
#include "kernels/resample_avx2.h"
#endif

namespace zerohop::kernels {

namespace {

// The columns of the source that any wanted pixel is made of.
struct Span {
  std::size_t first, end;

  Span(const Weights& weights, std::size_t length)
      : first(*std::min_element(weights.first.begin(), weights.first.end())),
        end(std::min(length, *std::max_element(weights.first.begin(), weights.first.end()) + weights.taps)) {}
};

// A row of the result at a time: first downwards, over the columns that count, then along the row, which is still in the cache.
template <class Blend>
void resampleBy(const std::uint8_t* source, std::size_t sourceStride, const Axis& columns, const Axis& rows, Filter filter,
                std::uint8_t* target, std::size_t targetStride) {
  Weights across = weightsOf(columns, filter, Blend::kColumnTaps);
  const Weights down = weightsOf(rows, filter, Blend::kRowTaps);
  const Span span(across, columns.length);
  for (std::size_t& first : across.first) first -= span.first;
  const std::size_t bytes = 3 * (span.end - span.first);
  // Taps that count nothing lie beyond the end.
  std::vector<std::uint8_t> row(bytes + 3 * across.taps + Blend::kReadBeyond);
  std::vector<const std::uint8_t*> taps(down.taps);
  for (std::size_t index = 0; index < rows.count; ++index, target += targetStride) {
    for (std::size_t tap = 0; tap < down.taps; ++tap) {
      const std::size_t at = std::min(down.first[index] + tap, rows.length - 1);
      taps[tap] = source + at * sourceStride + 3 * span.first;
    }
    if (rows.shrink == 1) std::memcpy(row.data(), taps[0], bytes);
    else Blend::rows(taps.data(), down.values.data() + index * down.taps, down.taps, bytes, row.data());
    if (columns.shrink == 1) std::memcpy(target, row.data(), 3 * columns.count);
    else Blend::columns(row.data(), across, target);
  }
}

}  // namespace

void resample(const std::uint8_t* source, std::size_t sourceStride, const Axis& columns, const Axis& rows, Filter filter,
              std::uint8_t* target, std::size_t targetStride) {
#if defined(__x86_64__) || defined(_M_X64)
  static const bool found = hasAvx2();
  if (found) return resampleBy<BlendByAvx2>(source, sourceStride, columns, rows, filter, target, targetStride);
#endif
  resampleByNumber(source, sourceStride, columns, rows, filter, target, targetStride);
}

void resampleByNumber(const std::uint8_t* source, std::size_t sourceStride, const Axis& columns, const Axis& rows, Filter filter,
                      std::uint8_t* target, std::size_t targetStride) {
  resampleBy<BlendByNumber>(source, sourceStride, columns, rows, filter, target, targetStride);
}

}  // namespace zerohop::kernels
