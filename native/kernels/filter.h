// The filters of a resize, by their names in sharp: the weight of a pixel by its distance.
#pragma once

#include <vector>

namespace zerohop::kernels {

// In the order of `resizeFilters` in src/native/native-binding.ts.
enum class Filter { kLinear, kCubic, kMitchell, kLanczos2, kLanczos3, kMks2013, kMks2021 };
constexpr int kFilters = 7;

// Beyond this distance the weight is 0.
double radiusOf(Filter filter);

// The weight of a pixel at that distance (0 or more), before weights are normalised to a sum of 1.
double valueOf(Filter filter, double distance);

// The same values from a table, interpolated.
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
