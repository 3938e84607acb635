#include "processes/unix_socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "processes/file_lock.h"

namespace zerohop {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  ~UnixSocketTest() override {
    close(ends.first);
    close(ends.second);
  }

  std::pair<int, int> ends = socketPair();
  char room[64] = {};
};

TEST_F(UnixSocketTest, HandsOverDescriptorsWithBytes) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  sendAll(ends.first, "hello", 5, {pipe[0], pipe[1]});
  const Received received = receive(ends.second, room, sizeof room);
  ASSERT_EQ(received.length, 5);
  ASSERT_EQ(received.descriptors.size(), 2u);
  ASSERT_EQ(write(pipe[1], "through", 8), 8);
  EXPECT_EQ(read(received.descriptors[0], room, sizeof room), 8);
  EXPECT_STREQ(room, "through");
  for (const int each : {pipe[0], pipe[1], received.descriptors[0], received.descriptors[1]}) close(each);
}

TEST_F(UnixSocketTest, SaysWhenNothingHasComeAndWhenNothingWillCome) {
  EXPECT_EQ(receive(ends.second, room, sizeof room).length, -1);
  close(ends.first);
  EXPECT_EQ(receive(ends.second, room, sizeof room).length, 0);
}

TEST_F(UnixSocketTest, TellsWhoThePeerIs) {
  EXPECT_EQ(peerOf(ends.first).process, getpid());
  EXPECT_EQ(peerOf(ends.first).user, getuid());
}

TEST_F(UnixSocketTest, RingsAnyNumberOfTimesWithoutWaiting) {
  for (int count = 0; count < 1'000'000; ++count) ring(ends.first);
  int silences = 0;
  while (receive(ends.second, room, sizeof room).length > 0) ++silences;
  EXPECT_GT(silences, 0);
}

TEST_F(UnixSocketTest, IsSilencedUntilItIsRungAgain) {
  ring(ends.first);
  EXPECT_TRUE(silence(ends.second));
  EXPECT_EQ(receive(ends.second, room, sizeof room).length, -1);
}

TEST_F(UnixSocketTest, KnowsThatTheOtherEndIsClosed) {
  close(ends.first);
  ring(ends.second);  // nobody hears it, and nobody dies of it
  EXPECT_FALSE(silence(ends.second));
}

TEST(ConnectTo, SaysThatNobodyListens) {
  try {
    connectTo("/nowhere/socket");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
  }
  EXPECT_THROW(connectTo(std::string(200, 'x')), std::runtime_error);
}

TEST(FileLock, IsOfOneHolderUntilThatGivesItUp) {
  const std::string path = testing::TempDir() + "zerohop-lock-" + std::to_string(getpid());
  const int held = lockFile(path);
  ASSERT_NE(held, -1);
  EXPECT_EQ(lockFile(path), -1);
  close(held);
  const int again = lockFile(path);
  EXPECT_NE(again, -1);
  close(again);
  unlink(path.c_str());
}

TEST(FileLock, FollowsNoLink) {
  const std::string path = testing::TempDir() + "zerohop-link-" + std::to_string(getpid());
  ASSERT_EQ(symlink("/dev/null", path.c_str()), 0);
  EXPECT_THROW(lockFile(path), std::system_error);
  unlink(path.c_str());
}

}  // namespace
}  // namespace zerohop
