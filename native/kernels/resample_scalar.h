// Sums of weighted pixels, in loops that compilers make into vectors for what every processor of a kind has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/resample_weights.h"

namespace zerohop::kernels {

struct BlendByNumber {
  // How many taps are taken at once.
  static constexpr std::size_t kRowTaps = 1, kColumnTaps = 1;
  // How far beyond them `columns` reads.
  static constexpr std::size_t kReadBeyond = 0;

  static constexpr std::int32_t kHalf = Weights::kOne / 2;

  static std::uint8_t pixelOf(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> Weights::kShift, 0, 255)); }

  // Each byte of `target` becomes the sum of those at its place in the rows.
  static void rows(const std::uint8_t* const* rows, const std::int16_t* weights, std::size_t taps, std::size_t bytes, std::uint8_t* target) {
    constexpr std::size_t kBlock = 256;
    std::int32_t sums[kBlock];
    for (std::size_t at = 0; at < bytes; at += kBlock) {
      const std::size_t count = std::min(kBlock, bytes - at);
      std::fill(sums, sums + count, kHalf);
      for (std::size_t tap = 0; tap < taps; ++tap) {
        const std::uint8_t* row = rows[tap] + at;
        const std::int32_t weight = weights[tap];
        for (std::size_t each = 0; each < count; ++each) sums[each] += weight * row[each];
      }
      for (std::size_t each = 0; each < count; ++each) target[at + each] = pixelOf(sums[each]);
    }
  }

  // Each pixel of `target` becomes the sum of those of the row that its taps are on.
  static void columns(const std::uint8_t* row, const Weights& across, std::uint8_t* target) {
    const std::int16_t* weights = across.values.data();
    for (const std::size_t first : across.first) {
      std::int32_t red = kHalf, green = kHalf, blue = kHalf;
      const std::uint8_t* pixel = row + 3 * first;
      for (std::size_t tap = 0; tap < across.taps; ++tap, pixel += 3) {
        const std::int32_t weight = weights[tap];
        red += weight * pixel[0];
        green += weight * pixel[1];
        blue += weight * pixel[2];
      }
      *target++ = pixelOf(red);
      *target++ = pixelOf(green);
      *target++ = pixelOf(blue);
      weights += across.taps;
    }
  }
};

}  // namespace zerohop::kernels
