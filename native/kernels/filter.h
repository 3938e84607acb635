// The filters of a resize, by their names in sharp: how much a pixel counts by its distance.
#pragma once

#include <vector>

namespace zerohop::kernels {

// In the order of `resampleFilters` in src/memory/native-kernels.ts.
enum class Filter { kLinear, kCubic, kMitchell, kLanczos2, kLanczos3, kMks2013, kMks2021 };
constexpr int kFilters = 7;

// Beyond this distance nothing counts.
double radiusOf(Filter filter);

// What a pixel at that distance counts, 0 or more, before all are made to add up to one.
double valueOf(Filter filter, double distance);

// The same values, found in a table and between its lines.
class FilterTable {
 public:
  static const FilterTable& of(Filter filter);

  double radius() const { return radius_; }

  double at(double distance) const {
    const double line = distance * kLinesPerUnit;
    const auto below = static_cast<std::size_t>(line);
    if (below + 1 >= values_.size()) return 0;
    return values_[below] + (values_[below + 1] - values_[below]) * (line - static_cast<double>(below));
  }

 private:
  explicit FilterTable(Filter filter);

  static constexpr int kLinesPerUnit = 1024;
  double radius_;
  std::vector<double> values_;
};

}  // namespace zerohop::kernels
