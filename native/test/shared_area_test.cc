#include "processes/shared_area.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <stdexcept>

namespace zerohop {
namespace {

constexpr std::size_t kBytes = 1 << 20;

class SharedAreaTest : public testing::Test {
 protected:
  ~SharedAreaTest() override { close(descriptor); }

  int descriptor = -1;
  std::unique_ptr<SharedArea> area{SharedArea::create(kBytes, descriptor)};
};

TEST_F(SharedAreaTest, IsTheSameMemoryForAllThatMapIt) {
  const std::unique_ptr<SharedArea> other(SharedArea::open(descriptor, kBytes));
  std::strcpy(static_cast<char*>(area->data()), "of both");
  EXPECT_STREQ(static_cast<char*>(other->data()), "of both");
}

TEST_F(SharedAreaTest, CanBeMadeNeitherSmallerNorLarger) {
  EXPECT_EQ(ftruncate(descriptor, 4096), -1);
  EXPECT_EQ(ftruncate(descriptor, 2 * kBytes), -1);
}

TEST_F(SharedAreaTest, KeepsItsSealsForGood) { EXPECT_EQ(fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), -1); }

TEST_F(SharedAreaTest, IsNotOpenedWithAnotherSizeThanItHas) {
  EXPECT_THROW(SharedArea::open(descriptor, 2 * kBytes), std::runtime_error);
  EXPECT_THROW(SharedArea::open(descriptor, kBytes / 2), std::runtime_error);
}

TEST(SharedArea, IsNotOpenedWhereItsMakerCouldShrinkIt) {
  const int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, kBytes), 0);
  EXPECT_THROW(SharedArea::open(unsealed, kBytes), std::runtime_error);
  close(unsealed);
}

TEST(SharedArea, IsNotMadeOfWhatIsNoSharedMemory) {
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_THROW(SharedArea::open(file, kBytes), std::runtime_error);
  close(file);
}

}  // namespace
}  // namespace zerohop
