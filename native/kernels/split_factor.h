// A factor and a summand as floats of which sums of products are exact, and what is left of them.
#pragma once

#include <cmath>

namespace zerohop::kernels {

// For values v from 0 to 255: v * factor + offset is a float in itself, and v * factorRest + offsetRest is small beside it.
struct SplitFactor {
  float factor, offset, factorRest, offsetRest;

  SplitFactor(double wholeFactor, double wholeOffset) {
    const double most = 255 * std::abs(wholeFactor) + std::abs(wholeOffset);
    // Multiples of this unit below 2^24 times it are floats; the largest sum has half as many of them at most.
    const double unit = most > 0 && std::isfinite(most) ? std::ldexp(1.0, std::ilogb(most) - 22) : 1.0;
    const double exactFactor = std::nearbyint(wholeFactor / unit) * unit;
    const double exactOffset = std::nearbyint(wholeOffset / unit) * unit;
    factor = static_cast<float>(exactFactor);
    offset = static_cast<float>(exactOffset);
    factorRest = static_cast<float>(wholeFactor - exactFactor);
    offsetRest = static_cast<float>(wholeOffset - exactOffset);
  }
};

}  // namespace zerohop::kernels
