// Sums of weighted pixels with AVX2: two products are added in one instruction, so taps are taken in twos.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/avx2.h"
#include "kernels/resample_scalar.h"
#include "kernels/resample_weights.h"

namespace zerohop::kernels {

struct BlendByAvx2 {
  static constexpr std::size_t kRowTaps = 2, kColumnTaps = 4;
  static constexpr std::size_t kReadBeyond = 4;

  static void rows(const std::uint8_t* const* rows, const std::int16_t* weights, std::size_t taps, std::size_t bytes, std::uint8_t* target) {
    if (bytes < kBytes) return BlendByNumber::rows(rows, weights, taps, bytes, target);
    for (std::size_t at = 0; at + kBytes < bytes; at += kBytes) block(rows, weights, taps, at, target);
    block(rows, weights, taps, bytes - kBytes, target);  // some of which are done twice
  }

  ZEROHOP_AVX2 static void columns(const std::uint8_t* row, const Weights& across, std::uint8_t* target) {
    // Of four pixels: the reds of two, their greens, their blues; and in the upper half of the other two.
    const __m256i twos = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                          6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m256i halves = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    const std::int16_t* weights = across.values.data();
    for (const std::size_t first : across.first) {
      const std::uint8_t* pixel = row + 3 * first;
      __m256i sums = _mm256_setzero_si256();
      for (std::size_t tap = 0; tap < across.taps; tap += kColumnTaps, pixel += 3 * kColumnTaps) {
        const __m256i pixels = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixel)));
        const __m256i four = _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights + tap)));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, twos), _mm256_permutevar8x32_epi32(four, halves)));
      }
      const __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
      const __m128i whole = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(BlendByNumber::kHalf)), Weights::kShift);
      const __m128i words = _mm_packs_epi32(whole, whole);
      const int bits = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
      std::memcpy(target, &bits, 3);
      target += 3;
      weights += across.taps;
    }
  }

 private:
  static constexpr std::size_t kBytes = 32;

  ZEROHOP_AVX2 static void block(const std::uint8_t* const* rows, const std::int16_t* weights, std::size_t taps, std::size_t at,
                                 std::uint8_t* target) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i half = _mm256_set1_epi32(BlendByNumber::kHalf);
    __m256i first = half, second = half, third = half, fourth = half;
    for (std::size_t tap = 0; tap < taps; tap += 2) {
      const __m256i one = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[tap] + at));
      const __m256i other = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[tap + 1] + at));
      const __m256i low = _mm256_unpacklo_epi8(one, other), high = _mm256_unpackhi_epi8(one, other);
      std::int32_t two;
      std::memcpy(&two, weights + tap, sizeof(two));
      const __m256i weight = _mm256_set1_epi32(two);
      first = _mm256_add_epi32(first, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weight));
      second = _mm256_add_epi32(second, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weight));
      third = _mm256_add_epi32(third, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weight));
      fourth = _mm256_add_epi32(fourth, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weight));
    }
    const __m256i low = _mm256_packs_epi32(_mm256_srai_epi32(first, Weights::kShift), _mm256_srai_epi32(second, Weights::kShift));
    const __m256i high = _mm256_packs_epi32(_mm256_srai_epi32(third, Weights::kShift), _mm256_srai_epi32(fourth, Weights::kShift));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + at), _mm256_packus_epi16(low, high));
  }
};

}  // namespace zerohop::kernels
