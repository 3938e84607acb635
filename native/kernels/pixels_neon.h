// Sixteen pixels at a time with NEON, which every arm64 has.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/pixels.h"
#include "kernels/split_factor.h"

namespace zerohop::kernels::vector {

constexpr const char* kInstructions = "neon";
constexpr std::size_t kPixels = 16;

inline bool available() { return true; }

inline void store(float* to, float64x2_t low, float64x2_t high) { vst1q_f32(to, vcvt_high_f32_f64(vcvt_f32_f64(low), high)); }

// By way of a float that is odd where it is not exact, so that nothing is rounded twice.
inline void store(Half* to, float64x2_t low, float64x2_t high) {
  const float16x4_t halves = vcvt_f16_f32(vcvtx_high_f32_f64(vcvtx_f32_f64(low), high));
  vst1_u16(reinterpret_cast<std::uint16_t*>(to), vreinterpret_u16_f16(halves));
}

inline void store(float* to, float32x4_t values) { vst1q_f32(to, values); }

inline void store(Half* to, float32x4_t values) {
  vst1_u16(reinterpret_cast<std::uint16_t*>(to), vreinterpret_u16_f16(vcvt_f16_f32(values)));
}

// Of one plane, in doubles.
struct InDoubles {
  float64x2_t factor, offset;

  InDoubles(double wholeFactor, double wholeOffset) : factor(vdupq_n_f64(wholeFactor)), offset(vdupq_n_f64(wholeOffset)) {}

  template <class Element>
  void writeFour(uint32x4_t values, Element* to) const {
    const float64x2_t low = vcvtq_f64_u64(vmovl_u32(vget_low_u32(values)));
    const float64x2_t high = vcvtq_f64_u64(vmovl_high_u32(values));
    store(to, vfmaq_f64(offset, low, factor), vfmaq_f64(offset, high, factor));
  }
};

// The same in floats.
struct InFloats {
  float32x4_t factor, offset, factorRest, offsetRest;

  InFloats(double wholeFactor, double wholeOffset) {
    const SplitFactor split(wholeFactor, wholeOffset);
    factor = vdupq_n_f32(split.factor);
    offset = vdupq_n_f32(split.offset);
    factorRest = vdupq_n_f32(split.factorRest);
    offsetRest = vdupq_n_f32(split.offsetRest);
  }

  template <class Element>
  void writeFour(uint32x4_t values, Element* to) const {
    const float32x4_t pixels = vcvtq_f32_u32(values);
    store(to, vaddq_f32(vfmaq_f32(offset, pixels, factor), vfmaq_f32(offsetRest, pixels, factorRest)));
  }
};

template <class Plane, class Element>
void writeChannel(uint8x16_t values, const Plane& plane, Element* to) {
  const uint16x8_t low = vmovl_u8(vget_low_u8(values)), high = vmovl_high_u8(values);
  plane.writeFour(vmovl_u16(vget_low_u16(low)), to);
  plane.writeFour(vmovl_high_u16(low), to + 4);
  plane.writeFour(vmovl_u16(vget_low_u16(high)), to + 8);
  plane.writeFour(vmovl_high_u16(high), to + 12);
}

template <class Plane, class Element>
void writeAll(const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes, std::size_t stride) {
  const Plane first(to.factor[0], to.offset[0]), second(to.factor[1], to.offset[1]), third(to.factor[2], to.offset[2]);
  const int channel = to.swapped ? 2 : 0;
  for (std::size_t at = 0; at < pixels; at += kPixels, rgb += 3 * kPixels) {
    const uint8x16x3_t channels = vld3q_u8(rgb);
    writeChannel(channels.val[channel], first, planes + at);
    writeChannel(channels.val[1], second, planes + stride + at);
    writeChannel(channels.val[2 - channel], third, planes + 2 * stride + at);
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
