#include "kernels/filter.h"

#include <array>
#include <cmath>

namespace zerohop::kernels {

namespace {

constexpr double kPi = 3.14159265358979323846;

// The cubics of Mitchell and Netravali.
double cubic(double x, double b, double c) {
  if (x < 1) return ((12 - 9 * b - 6 * c) * x * x * x + (-18 + 12 * b + 6 * c) * x * x + 6 - 2 * b) / 6;
  return ((-b - 6 * c) * x * x * x + (6 * b + 30 * c) * x * x + (-12 * b - 48 * c) * x + 8 * b + 24 * c) / 6;
}

double lanczos(double x, double lobes) {
  if (x == 0) return 1;
  return lobes * std::sin(kPi * x) * std::sin(kPi * x / lobes) / (kPi * kPi * x * x);
}

// Costella's magic kernels, sharpened.
double mks2013(double x) {
  if (x < 0.5) return 17.0 / 16 - 7 * x * x / 4;
  if (x < 1.5) return (4 * x * x - 11 * x + 7) / 4;
  return (x - 2.5) * (x - 2.5) / -8;
}

double mks2021(double x) {
  if (x < 0.5) return 577.0 / 576 - 239 * x * x / 144;
  if (x < 1.5) return (140 * x * x - 379 * x + 239) / 144;
  if (x < 2.5) return (24 * x * x - 113 * x + 130) / -144;
  if (x < 3.5) return (4 * x * x - 27 * x + 45) / 144;
  return (4 * x * x - 36 * x + 81) / -1152;
}

}  // namespace

double radiusOf(Filter filter) {
  switch (filter) {
    case Filter::kLinear: return 1;
    case Filter::kCubic:
    case Filter::kMitchell:
    case Filter::kLanczos2: return 2;
    case Filter::kLanczos3: return 3;
    case Filter::kMks2013: return 2.5;
    case Filter::kMks2021: return 4.5;
  }
  return 0;
}

double valueOf(Filter filter, double distance) {
  if (distance >= radiusOf(filter)) return 0;
  switch (filter) {
    case Filter::kLinear: return 1 - distance;
    case Filter::kCubic: return cubic(distance, 0, 0.5);
    case Filter::kMitchell: return cubic(distance, 1.0 / 3, 1.0 / 3);
    case Filter::kLanczos2: return lanczos(distance, 2);
    case Filter::kLanczos3: return lanczos(distance, 3);
    case Filter::kMks2013: return mks2013(distance);
    case Filter::kMks2021: return mks2021(distance);
  }
  return 0;
}

FilterTable::FilterTable(Filter filter) : radius_(radiusOf(filter)), values_(static_cast<std::size_t>(radius_ * kLinesPerUnit) + 1) {
  for (std::size_t line = 0; line < values_.size(); ++line) values_[line] = valueOf(filter, static_cast<double>(line) / kLinesPerUnit);
}

const FilterTable& FilterTable::of(Filter filter) {
  static const std::array<FilterTable, kFilters> all = {
      FilterTable(Filter::kLinear),   FilterTable(Filter::kCubic),   FilterTable(Filter::kMitchell), FilterTable(Filter::kLanczos2),
      FilterTable(Filter::kLanczos3), FilterTable(Filter::kMks2013), FilterTable(Filter::kMks2021),
  };
  return all[static_cast<std::size_t>(filter)];
}

}  // namespace zerohop::kernels
