// Sixteen pixels at a time with AVX2, in functions of their own: the rest of the addon runs on every x86-64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/avx2.h"
#include "kernels/pixels.h"
#include "kernels/split_factor.h"

namespace zerohop::kernels::vector {

constexpr const char* kInstructions = "avx2";
constexpr std::size_t kPixels = 16;

inline bool available() { return hasAvx2(); }

// Where in three times 16 bytes the bytes of a channel are: for each channel and part a shuffle; 0x80 gives 0.
struct Shuffles {
  alignas(16) std::uint8_t bytes[3][3][16];
  constexpr Shuffles() : bytes() {
    for (int channel = 0; channel < 3; ++channel) {
      for (int part = 0; part < 3; ++part) {
        for (int pixel = 0; pixel < 16; ++pixel) {
          const int from = 3 * pixel + channel;
          bytes[channel][part][pixel] = static_cast<std::uint8_t>(from / 16 == part ? from % 16 : 0x80);
        }
      }
    }
  }
};
inline constexpr Shuffles kShuffles;

ZEROHOP_AVX2 inline __m128i channelOf(const __m128i (&parts)[3], int channel) {
  __m128i values = _mm_setzero_si128();
  for (int part = 0; part < 3; ++part) {
    const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(kShuffles.bytes[channel][part]));
    values = _mm_or_si128(values, _mm_shuffle_epi8(parts[part], shuffle));
  }
  return values;
}

ZEROHOP_AVX2 inline void store(float* to, __m256d values) { _mm_storeu_ps(to, _mm256_cvtpd_ps(values)); }

// By way of a float that is odd where it is not exact, so that nothing is rounded twice.
ZEROHOP_AVX2 inline void store(Half* to, __m256d values) {
  const __m256i below = _mm256_set1_epi64x(0x1fffffff);  // what a float has no room for
  const __m256i bits = _mm256_castpd_si256(values);
  const __m256i exact = _mm256_cmpeq_epi64(_mm256_and_si256(bits, below), _mm256_setzero_si256());
  const __m256i odd = _mm256_andnot_si256(exact, _mm256_set1_epi64x(0x20000000));
  const __m256i kept = _mm256_or_si256(_mm256_andnot_si256(below, bits), odd);
  const __m128 floats = _mm256_cvtpd_ps(_mm256_castsi256_pd(kept));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
}

ZEROHOP_AVX2 inline void store(float* to, __m256 values) { _mm256_storeu_ps(to, values); }

ZEROHOP_AVX2 inline void store(Half* to, __m256 values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

// Of one plane, in doubles.
struct InDoubles {
  __m256d factor, offset;

  ZEROHOP_AVX2 InDoubles(double wholeFactor, double wholeOffset) : factor(_mm256_set1_pd(wholeFactor)), offset(_mm256_set1_pd(wholeOffset)) {}

  template <class Element>
  ZEROHOP_AVX2 void write(__m128i values, Element* to) const {
    for (int group = 0; group < 4; ++group) {
      store(to + 4 * group, _mm256_fmadd_pd(_mm256_cvtepi32_pd(_mm_cvtepu8_epi32(values)), factor, offset));
      values = _mm_srli_si128(values, 4);
    }
  }
};

// The same in floats.
struct InFloats {
  __m256 factor, offset, factorRest, offsetRest;

  ZEROHOP_AVX2 InFloats(double wholeFactor, double wholeOffset) {
    const SplitFactor split(wholeFactor, wholeOffset);
    factor = _mm256_set1_ps(split.factor);
    offset = _mm256_set1_ps(split.offset);
    factorRest = _mm256_set1_ps(split.factorRest);
    offsetRest = _mm256_set1_ps(split.offsetRest);
  }

  template <class Element>
  ZEROHOP_AVX2 void write(__m128i values, Element* to) const {
    for (int group = 0; group < 2; ++group) {
      const __m256 pixels = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(values));
      store(to + 8 * group, _mm256_add_ps(_mm256_fmadd_ps(pixels, factor, offset), _mm256_fmadd_ps(pixels, factorRest, offsetRest)));
      values = _mm_srli_si128(values, 8);
    }
  }
};

template <class Plane, class Element>
ZEROHOP_AVX2 void writeAll(const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes, std::size_t stride) {
  const Plane first(to.factor[0], to.offset[0]), second(to.factor[1], to.offset[1]), third(to.factor[2], to.offset[2]);
  const int channel = to.swapped ? 2 : 0;
  for (std::size_t at = 0; at < pixels; at += kPixels, rgb += 3 * kPixels) {
    const auto* from = reinterpret_cast<const __m128i*>(rgb);
    const __m128i parts[3] = {_mm_loadu_si128(from), _mm_loadu_si128(from + 1), _mm_loadu_si128(from + 2)};
    first.write(channelOf(parts, channel), planes + at);
    second.write(channelOf(parts, 1), planes + stride + at);
    third.write(channelOf(parts, 2 - channel), planes + 2 * stride + at);
  }
}

// `pixels` is a multiple of kPixels; planes are `stride` elements apart.
template <class Element>
void write(Arithmetic arithmetic, const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes,
           std::size_t stride) {
  if (arithmetic == Arithmetic::kSplit) writeAll<InFloats>(rgb, pixels, to, planes, stride);
  else writeAll<InDoubles>(rgb, pixels, to, planes, stride);
}

}  // namespace zerohop::kernels::vector
