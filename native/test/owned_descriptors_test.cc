#ifdef __linux__

#include "processes/owned_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using zerohop::OwnedDescriptors;

int opened() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool isOpen(int descriptor) { return fcntl(descriptor, F_GETFD) != -1; }

TEST(OwnedDescriptors, AreClosedWithTheirOwnerAndNoOthers) {
  OwnedDescriptors descriptors;
  const int first = opened(), second = opened(), others = opened(), handedOver = opened();
  descriptors.add(&first, first);
  descriptors.add(&first, second);
  descriptors.add(&others, others);
  descriptors.add(&first, handedOver);
  descriptors.remove(handedOver);
  descriptors.closeAll(&first);
  EXPECT_FALSE(isOpen(first));
  EXPECT_FALSE(isOpen(second));
  EXPECT_TRUE(isOpen(others));
  EXPECT_TRUE(isOpen(handedOver));
  close(others);
  close(handedOver);
}

TEST(OwnedDescriptors, AreClosedOnce) {
  OwnedDescriptors descriptors;
  const int closed = opened();
  descriptors.add(&descriptors, closed);
  descriptors.closeAll(&descriptors);
  const int next = opened();  // of the same number
  descriptors.closeAll(&descriptors);
  EXPECT_TRUE(isOpen(next));
  close(next);
}

}  // namespace

#endif
