#include "kernels/pixels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace zerohop::kernels {
namespace {

double magnitudeOf(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10);
  return exponent == 0 ? std::ldexp(bits, -24) : std::ldexp(1024 + (bits & 0x3ff), exponent - 25);
}

// A half by its definition: the nearest of all, and of two as near the even one.
Half nearestHalf(double value) {
  std::uint32_t below = 0, above = 0x7bff;  // the largest that is finite
  while (above - below > 1) {
    const std::uint32_t middle = (below + above) / 2;
    (magnitudeOf(middle) <= std::abs(value) ? below : above) = middle;
  }
  const double toBelow = std::abs(value) - magnitudeOf(below), toAbove = magnitudeOf(above) - std::abs(value);
  const std::uint32_t nearest = toBelow < toAbove || (toBelow == toAbove && below % 2 == 0) ? below : above;
  return static_cast<Half>(std::signbit(value) ? nearest | 0x8000 : nearest);
}

template <class Element>
struct Table {
  std::vector<Element> values;
  Normalisation<Element> to;

  Table(double scale, const double (&mean)[3], const double (&deviation)[3], bool swapped) : values(768), to{values.data(), {}, {}, swapped} {
    for (int plane = 0; plane < 3; ++plane) {
      to.factor[plane] = scale / deviation[plane];
      to.offset[plane] = -mean[plane] / deviation[plane];
      for (int pixel = 0; pixel < 256; ++pixel) {
        const double value = (pixel * scale - mean[plane]) / deviation[plane];
        if constexpr (std::is_same_v<Element, float>) values[256 * plane + pixel] = static_cast<float>(value);
        else values[256 * plane + pixel] = nearestHalf(value);
      }
    }
  }
};

constexpr double kMean[3] = {0.485, 0.456, 0.406};
constexpr double kDeviation[3] = {0.229, 0.224, 0.225};
constexpr double kZero[3] = {0, 0, 0};
constexpr double kOne[3] = {1, 1, 1};

std::vector<std::uint8_t> randomPixels(std::size_t pixels, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> rgb(3 * pixels);
  for (auto& byte : rgb) byte = static_cast<std::uint8_t>(random());
  return rgb;
}

template <class Element>
class PixelsTest : public testing::Test {};
using Types = testing::Types<float, Half>;
TYPED_TEST_SUITE(PixelsTest, Types);

TYPED_TEST(PixelsTest, GivesWhatTheTableSaysForEachPixelOfEachPlane) {
  const std::uint8_t rgb[] = {0, 1, 2, 253, 254, 255};
  const Table<TypeParam> table(1.0 / 255, kMean, kDeviation, false);
  TypeParam planes[6];
  writePlanes(rgb, 2, table.to, planes);
  for (int at = 0; at < 2; ++at) {
    for (int plane = 0; plane < 3; ++plane) EXPECT_EQ(planes[2 * plane + at], table.values[256 * plane + rgb[3 * at + plane]]);
  }
}

TYPED_TEST(PixelsTest, PutsBlueFirstWhereThatIsAskedFor) {
  const std::uint8_t rgb[] = {10, 20, 30};
  const Table<TypeParam> table(1, kZero, kOne, true);
  TypeParam planes[3];
  writePlanesByTable(rgb, 1, table.to, planes);
  EXPECT_EQ(planes[0], table.values[30]);
  EXPECT_EQ(planes[1], table.values[256 + 20]);
  EXPECT_EQ(planes[2], table.values[512 + 10]);
}

TYPED_TEST(PixelsTest, GivesTheSameByVectorsAsByTheTable) {
  if (std::string(vectorInstructions()) == "none") GTEST_SKIP() << "this processor has no such instructions";
  for (const bool swapped : {false, true}) {
    // In floats halves are rounded twice, which the next test is about.
    const Arithmetic arithmetic = std::is_same_v<TypeParam, float> && swapped ? Arithmetic::kSplit : Arithmetic::kDouble;
    const Table<TypeParam> table(1.0 / 255, kMean, kDeviation, swapped);
    for (const std::size_t pixels : {0, 1, 15, 16, 17, 31, 33, 255, 256, 1000, 224 * 224}) {
      const auto rgb = randomPixels(pixels, static_cast<unsigned>(pixels));
      // Unaligned, and with a border that has to stay as it is.
      std::vector<TypeParam> byTable(3 * pixels + 2), byVector(3 * pixels + 2);
      writePlanesByTable(rgb.data(), pixels, table.to, byTable.data() + 1);
      ASSERT_TRUE(writePlanesByVector(arithmetic, rgb.data(), pixels, table.to, byVector.data() + 1));
      EXPECT_EQ(std::memcmp(byTable.data(), byVector.data(), byTable.size() * sizeof(TypeParam)), 0) << pixels;
    }
  }
}

TYPED_TEST(PixelsTest, IsEqualToTheTableInEveryBitWhateverTheNumbers) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> number(-3, 3);
  const auto rgb = randomPixels(300, 1);
  for (int round = 0; round < 40; ++round) {
    const double mean[3] = {number(random), number(random), number(random)};
    const double deviation[3] = {number(random), number(random) * 1e-3, number(random) * 100};
    const Table<TypeParam> table(number(random), mean, deviation, round % 2 == 1);
    std::vector<TypeParam> byTable(900), given(900);
    writePlanesByTable(rgb.data(), 300, table.to, byTable.data());
    writePlanes(rgb.data(), 300, table.to, given.data());
    EXPECT_EQ(std::memcmp(byTable.data(), given.data(), 900 * sizeof(TypeParam)), 0) << round;
  }
}

TEST(PixelsTest, ComputesInFloatsWhatIsUsualForImagesAndMissesLittleElse) {
  if (std::string(vectorInstructions()) == "none") GTEST_SKIP() << "this processor has no such instructions";
  std::mt19937 random(11);
  std::uniform_real_distribution<double> number(0.2, 0.6);
  std::vector<std::uint8_t> rgb(3 * 256);
  for (std::size_t at = 0; at < rgb.size(); ++at) rgb[at] = static_cast<std::uint8_t>(at / 3);
  int exact = 0;
  for (int round = 0; round < 200; ++round) {
    const double mean[3] = {number(random), number(random), number(random)};
    const double deviation[3] = {number(random), number(random), number(random)};
    const Table<float> table(1.0 / 255, mean, deviation, false);
    std::vector<float> planes(rgb.size());
    writePlanesByVector(Arithmetic::kSplit, rgb.data(), 256, table.to, planes.data());
    if (std::memcmp(planes.data(), table.values.data(), planes.size() * sizeof(float)) == 0) ++exact;
  }
  EXPECT_GT(exact, 150);
}

TEST(PixelsTest, FollowsTheTableWhereArithmeticGivesAnotherNumber) {
  Table<float> table(1, kZero, kOne, false);
  table.values[256 + 77] = -1;
  std::vector<std::uint8_t> rgb(3 * 512, 77);
  std::vector<float> planes(rgb.size());
  writePlanes(rgb.data(), 512, table.to, planes.data());
  EXPECT_EQ(planes[0], 77);
  EXPECT_EQ(planes[512], -1);
  EXPECT_EQ(planes[1024 + 511], 77);
}

}  // namespace
}  // namespace zerohop::kernels
