#include "kernels/resample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace zerohop::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes randomPixels(std::size_t pixels) {
  std::mt19937 random(7);
  Bytes rgb(3 * pixels);
  for (auto& byte : rgb) byte = static_cast<std::uint8_t>(random());
  return rgb;
}

// `count` pixels of the middle of a line, made `shrink` times shorter.
Axis middle(std::size_t length, double shrink, std::size_t count) {
  return {length, shrink, (0.5 - static_cast<double>(count) / 2) * shrink + static_cast<double>(length) / 2 - 0.5, count};
}

// By its definition, in doubles: no rounding but of places to 64ths, of the row that lies between the two directions, and at the end.
double sumAt(const Axis& axis, Filter filter, std::size_t index, const std::vector<double>& line) {
  if (axis.shrink == 1) return line[static_cast<std::size_t>(std::lround(axis.start)) + index];
  const double centre = std::floor((axis.start + axis.shrink * static_cast<double>(index)) * 64 + 0.5) / 64;
  const double radius = radiusOf(filter) * axis.shrink;
  double sum = 0, weights = 0;
  for (auto at = static_cast<int>(std::floor(centre - radius)); at <= static_cast<int>(std::ceil(centre + radius)); ++at) {
    const double weight = valueOf(filter, std::abs(at - centre) / axis.shrink);
    sum += weight * line[static_cast<std::size_t>(std::clamp(at, 0, static_cast<int>(axis.length) - 1))];
    weights += weight;
  }
  return sum / weights;
}

Bytes byDefinition(const Bytes& source, const Axis& columns, const Axis& rows, Filter filter) {
  Bytes target;
  const auto toByte = [](double value) { return std::clamp(std::floor(value + 0.5), 0.0, 255.0); };
  for (std::size_t y = 0; y < rows.count; ++y) {
    for (std::size_t x = 0; x < columns.count; ++x) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        std::vector<double> row(columns.length), column(rows.length);
        for (std::size_t at = 0; at < columns.length; ++at) {
          for (std::size_t down = 0; down < rows.length; ++down) column[down] = source[3 * (down * columns.length + at) + channel];
          row[at] = toByte(sumAt(rows, filter, y, column));
        }
        target.push_back(static_cast<std::uint8_t>(toByte(sumAt(columns, filter, x, row))));
      }
    }
  }
  return target;
}

struct Case {
  Axis columns, rows;
};

class Resample : public testing::TestWithParam<int> {
 protected:
  Filter filter() const { return static_cast<Filter>(GetParam()); }

  const std::vector<Case> cases{
      {middle(31, 1.3, 20), middle(24, 2.9, 8)}, {middle(40, 2, 20), middle(9, 1, 9)},    {middle(40, 1, 12), middle(9, 1.5, 6)},
      {middle(7, 3.5, 2), middle(7, 3.5, 2)},    {middle(1, 1, 1), middle(1, 1, 1)},      {middle(3, 3, 1), middle(5, 5, 1)},
      {middle(90, 1.01, 40), middle(3, 1.2, 1)}, {middle(20, 1, 20), middle(10, 1, 10)},
  };
};

INSTANTIATE_TEST_SUITE_P(Filters, Resample, testing::Range(0, kFilters));

TEST_P(Resample, IsTheFilterByItsDefinitionButForRoundings) {
  for (const auto& [columns, rows] : cases) {
    const Bytes source = randomPixels(columns.length * rows.length);
    const Bytes expected = byDefinition(source, columns, rows, filter());
    Bytes target(expected.size());
    resample(source.data(), 3 * columns.length, columns, rows, filter(), target.data(), 3 * columns.count);
    // One in each direction for what weights lack, and a little for what the second makes of the first.
    for (std::size_t at = 0; at < target.size(); ++at) EXPECT_NEAR(target[at], expected[at], 2) << at << " of " << columns.length;
  }
}

TEST_P(Resample, IsTheSameByVectorsInEveryBit) {
  for (const std::size_t width : {1, 2, 5, 10, 11, 21, 22, 64, 100}) {
    const Axis columns = middle(width, 1.7, std::max<std::size_t>(1, width / 2)), rows = middle(33, 2.3, 9);
    const Bytes source = randomPixels(columns.length * rows.length);
    Bytes vector(3 * columns.count * rows.count), scalar(vector.size());
    resample(source.data(), 3 * columns.length, columns, rows, filter(), vector.data(), 3 * columns.count);
    resampleByNumber(source.data(), 3 * columns.length, columns, rows, filter(), scalar.data(), 3 * columns.count);
    EXPECT_EQ(vector, scalar) << width;
  }
}

TEST_P(Resample, OfOneColourIsThatColourButForALevelInEachDirection) {
  for (const std::uint8_t value : {0, 1, 128, 255}) {
    const Bytes source(3 * 50 * 40, value);
    Bytes target(3 * 20 * 16);
    resample(source.data(), 150, middle(50, 2.5, 20), middle(40, 2.5, 16), filter(), target.data(), 60);
    for (const std::uint8_t byte : target) EXPECT_NEAR(byte, value, 2);
  }
}

// Heap memory without slack, so that the address sanitizer sees what is read or written beside it.
TEST_P(Resample, TouchesNothingButItsPixels) {
  for (const auto& [columns, rows] : cases) {
    const Bytes source = randomPixels(columns.length * rows.length);
    const std::size_t stride = 3 * columns.count + 5;
    Bytes target((rows.count - 1) * stride + 3 * columns.count, 0xa5);
    resample(source.data(), 3 * columns.length, columns, rows, filter(), target.data(), stride);
    for (std::size_t row = 0; row + 1 < rows.count; ++row) {
      for (std::size_t at = 3 * columns.count; at < stride; ++at) EXPECT_EQ(target[row * stride + at], 0xa5);
    }
  }
}

TEST_P(Resample, OfAPartIsThatPartOfTheWhole) {
  const Axis columns = middle(60, 1.5, 40), rows = middle(45, 1.5, 30);
  const Axis left{60, 1.5, columns.start + 1.5 * 7, 11}, upper{45, 1.5, rows.start + 1.5 * 3, 5};
  const Bytes source = randomPixels(60 * 45);
  Bytes whole(3 * 40 * 30), part(3 * 11 * 5);
  resample(source.data(), 3 * columns.length, columns, rows, filter(), whole.data(), 120);
  resample(source.data(), 180, left, upper, filter(), part.data(), 33);
  for (std::size_t row = 0; row < 5; ++row) {
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>((row + 3) * 120 + 21);
    EXPECT_TRUE(std::equal(from, from + 33, part.begin() + static_cast<std::ptrdiff_t>(row * 33))) << row;
  }
}

TEST_P(Resample, LooksAtNothingBesideTheRowsOfItsSource) {
  const Axis columns = middle(21, 1.6, 13), rows = middle(9, 1.6, 5);
  const Bytes source = randomPixels(21 * 9);
  Bytes wider(9 * 70, 0xff), expected(3 * 13 * 5), target(expected.size());
  for (std::size_t row = 0; row < 9; ++row) std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(row * 63), 63, wider.begin() + static_cast<std::ptrdiff_t>(row * 70));
  resample(source.data(), 63, columns, rows, filter(), expected.data(), 39);
  resample(wider.data(), 70, columns, rows, filter(), target.data(), 39);
  EXPECT_EQ(target, expected);
}

}  // namespace
}  // namespace zerohop::kernels
