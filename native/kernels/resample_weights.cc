#include "kernels/resample_weights.h"

#include <algorithm>
#include <cmath>

namespace zerohop::kernels {

namespace {

// A filter has 64 places in a pixel, as in libvips.
double inSteps(double middle) { return std::floor((std::floor(middle * 128) + 1) / 2) / 64; }

// The pixels of the source that one of the result is made of, those beyond its ends, too.
struct Reach {
  double middle;
  std::int64_t first, last;

  Reach(const Axis& axis, double radius, std::size_t index) : middle(inSteps(axis.start + axis.shrink * static_cast<double>(index))) {
    first = static_cast<std::int64_t>(std::ceil(middle - radius));
    last = static_cast<std::int64_t>(std::floor(middle + radius));
  }
};

std::size_t within(const Axis& axis, std::int64_t pixel) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(pixel, 0, static_cast<std::int64_t>(axis.length) - 1));
}

// Cut off, as in libvips: a sum may lack a few parts of kOne.
void toFixedPoint(const std::vector<double>& exact, std::int16_t* values) {
  double sum = 0;
  for (const double value : exact) sum += value;
  for (std::size_t tap = 0; tap < exact.size(); ++tap) values[tap] = static_cast<std::int16_t>(exact[tap] / sum * Weights::kOne);
}

Weights asTheyAre(const Axis& axis, std::size_t taps) {
  Weights weights{taps, {}, std::vector<std::int16_t>(axis.count * taps)};
  for (std::size_t index = 0; index < axis.count; ++index) {
    weights.first.push_back(within(axis, std::llround(axis.start) + static_cast<std::int64_t>(index)));
    weights.values[index * weights.taps] = static_cast<std::int16_t>(Weights::kOne);
  }
  return weights;
}

}  // namespace

bool isWithinSource(const Axis& axis) {
  const auto length = static_cast<double>(axis.length);
  const double last = axis.start + axis.shrink * (static_cast<double>(axis.count) - 1);
  return axis.count > 0 && axis.shrink >= 1 && axis.shrink <= 2 * length && axis.start >= -0.5 && last <= length - 0.5;
}

Weights weightsOf(const Axis& axis, Filter filter, std::size_t tapGroup) {
  if (axis.shrink == 1) return asTheyAre(axis, tapGroup);
  const FilterTable& table = FilterTable::of(filter);
  const double radius = table.radius() * axis.shrink;
  const auto most = std::min(axis.length, static_cast<std::size_t>(2 * radius) + 1);
  const std::size_t taps = (most + tapGroup - 1) / tapGroup * tapGroup;
  Weights weights{taps, {}, std::vector<std::int16_t>(axis.count * taps)};
  weights.first.reserve(axis.count);
  std::vector<double> exact(taps);
  for (std::size_t index = 0; index < axis.count; ++index) {
    const Reach reach(axis, radius, index);
    const std::size_t first = within(axis, reach.first);
    std::fill(exact.begin(), exact.end(), 0.0);
    for (std::int64_t pixel = reach.first; pixel <= reach.last; ++pixel) {
      exact[within(axis, pixel) - first] += table.at(std::abs(static_cast<double>(pixel) - reach.middle) / axis.shrink);
    }
    weights.first.push_back(first);
    toFixedPoint(exact, weights.values.data() + index * taps);
  }
  return weights;
}

}  // namespace zerohop::kernels
