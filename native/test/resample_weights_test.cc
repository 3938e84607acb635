#include "kernels/resample_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace zerohop::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// All of a line of that length, made `shrink` times shorter.
Axis whole(std::size_t length, double shrink) {
  const auto count = static_cast<std::size_t>(std::llround(static_cast<double>(length) / shrink));
  return {length, shrink, (0.5 - static_cast<double>(count) / 2) * shrink + static_cast<double>(length) / 2 - 0.5, count};
}

class EachFilter : public testing::TestWithParam<int> {
 protected:
  Filter filter() const { return static_cast<Filter>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Filters, EachFilter, testing::Range(0, kFilters));

TEST_P(EachFilter, IsAsWideAsItSaysAndHasNoSteps) {
  const double radius = radiusOf(filter());
  EXPECT_EQ(valueOf(filter(), radius), 0);
  EXPECT_GT(valueOf(filter(), 0), 0.5);
  for (double at = 0; at < radius; at += 1.0 / 512) {
    EXPECT_NEAR(valueOf(filter(), at), valueOf(filter(), at + 1.0 / 512), 0.005) << at;
    EXPECT_NEAR(FilterTable::of(filter()).at(at + 0.0003), valueOf(filter(), at + 0.0003), 1e-5) << at;
  }
  EXPECT_EQ(FilterTable::of(filter()).at(radius), 0);
  EXPECT_EQ(FilterTable::of(filter()).at(radius + 100), 0);
}

TEST_P(EachFilter, GivesWeightsThatAddUpToNearlyOneAndLieInTheSource) {
  for (const double shrink : {1.01, 1.5, 2.0, 2.9, 7.3}) {
    for (const std::size_t length : {1, 2, 7, 64, 501}) {
      const Axis axis = whole(length, shrink);
      if (axis.count == 0) continue;
      ASSERT_TRUE(isWithinSource(axis)) << length << " by " << shrink;
      for (const std::size_t group : {1, 2, 4}) {
        const Weights weights = weightsOf(axis, filter(), group);
        ASSERT_EQ(weights.taps % group, 0u);
        ASSERT_EQ(weights.first.size(), axis.count);
        ASSERT_EQ(weights.values.size(), axis.count * weights.taps);
        for (std::size_t index = 0; index < axis.count; ++index) {
          const auto begin = weights.values.begin() + static_cast<std::ptrdiff_t>(index * weights.taps);
          const std::int32_t sum = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(weights.taps), 0);
          EXPECT_NEAR(sum, Weights::kOne, static_cast<double>(weights.taps));
          ASSERT_LT(weights.first[index], length);
          for (std::size_t tap = length - weights.first[index]; tap < weights.taps; ++tap) EXPECT_EQ(begin[static_cast<std::ptrdiff_t>(tap)], 0);
        }
      }
    }
  }
}

TEST_P(EachFilter, LeavesPixelsAsTheyAreWhereNothingShrinks) {
  const Weights weights = weightsOf({10, 1, 3, 4}, filter(), 2);
  EXPECT_EQ(weights.first, (std::vector<std::size_t>{3, 4, 5, 6}));
  EXPECT_EQ(weights.values, (std::vector<std::int16_t>{Weights::kOne, 0, Weights::kOne, 0, Weights::kOne, 0, Weights::kOne, 0}));
}

TEST(Axis, MakesSenseWithMiddlesOnPixelsOnly) {
  EXPECT_TRUE(isWithinSource({10, 2, 0.5, 5}));
  EXPECT_TRUE(isWithinSource({10, 1, -0.5, 11}));
  EXPECT_TRUE(isWithinSource({1, 2, 0, 1}));
  EXPECT_FALSE(isWithinSource({10, 2, 0.5, 6}));
  EXPECT_FALSE(isWithinSource({10, 2, -0.6, 5}));
  EXPECT_FALSE(isWithinSource({10, 0.9, 0, 1}));
  EXPECT_FALSE(isWithinSource({10, 20.1, 0, 1}));
  EXPECT_FALSE(isWithinSource({10, 2, 0, 0}));
  EXPECT_FALSE(isWithinSource({10, kNan, 0, 1}));
  EXPECT_FALSE(isWithinSource({10, 2, kNan, 1}));
  EXPECT_FALSE(isWithinSource({10, std::numeric_limits<double>::infinity(), 0, 1}));
}

}  // namespace
}  // namespace zerohop::kernels
