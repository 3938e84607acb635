#include "kernels/rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace zerohop::kernels {
namespace {

std::vector<std::uint8_t> counted(std::size_t bytes) {
  std::vector<std::uint8_t> values(bytes);
  std::iota(values.begin(), values.end(), std::uint8_t{1});
  return values;
}

const std::byte* bytes(const std::vector<std::uint8_t>& values) { return reinterpret_cast<const std::byte*>(values.data()); }
std::byte* bytes(std::vector<std::uint8_t>& values) { return reinterpret_cast<std::byte*>(values.data()); }

TEST(RowsTest, CopiesRowsFromOneStrideToAnotherAndNothingBetween) {
  const auto source = counted(12);
  std::vector<std::uint8_t> target(15, 0);
  copyRows(bytes(source), 4, bytes(target), 5, 3, 3);
  EXPECT_EQ(target, (std::vector<std::uint8_t>{1, 2, 3, 0, 0, 5, 6, 7, 0, 0, 9, 10, 11, 0, 0}));
}

TEST(RowsTest, CopiesRowsWithoutGapsAsOne) {
  const auto source = counted(12);
  std::vector<std::uint8_t> target(12, 0);
  copyRows(bytes(source), 4, bytes(target), 4, 4, 3);
  EXPECT_EQ(target, source);
}

TEST(RowsTest, MovesRowsDownWithinTheSameMemory) {
  auto memory = counted(8);
  copyRows(bytes(memory) + 2, 2, bytes(memory), 2, 2, 3);
  EXPECT_EQ(memory, (std::vector<std::uint8_t>{3, 4, 5, 6, 7, 8, 7, 8}));
}

TEST(RowsTest, FillsTheEndsOfRowsWithElementsOfEachSize) {
  for (const std::size_t size : {1, 2, 4, 8}) {
    const auto element = counted(size);
    std::vector<std::uint8_t> target(10 * size, 0), expected(10 * size, 0);
    for (const std::size_t at : {2, 3, 7, 8}) std::memcpy(expected.data() + at * size, element.data(), size);
    fillRows(bytes(target) + 2 * size, 5 * size, 2 * size, 2, bytes(element), size);
    EXPECT_EQ(target, expected) << size;
  }
}

TEST(RowsTest, FillsLongRowsWithoutGaps) {
  const auto element = counted(4);
  std::vector<std::uint8_t> target(4 * 1003, 0);
  fillRows(bytes(target), 4 * 17, 4 * 17, 59, bytes(element), 4);
  for (std::size_t at = 0; at < target.size(); ++at) ASSERT_EQ(target[at], element[at % 4]) << at;
}

TEST(RowsTest, FillsRowsThatOverlap) {
  const auto element = counted(2);
  std::vector<std::uint8_t> target(10, 9);
  fillRows(bytes(target), 2, 4, 3, bytes(element), 2);
  EXPECT_EQ(target, (std::vector<std::uint8_t>{1, 2, 1, 2, 1, 2, 1, 2, 9, 9}));
}

TEST(RowsTest, FillsWithZeros) {
  const std::vector<std::uint8_t> element(8, 0);
  std::vector<std::uint8_t> target(64, 9);
  fillRows(bytes(target), 32, 16, 2, bytes(element), 8);
  EXPECT_EQ(std::accumulate(target.begin(), target.end(), 0), 32 * 9);
}

}  // namespace
}  // namespace zerohop::kernels
