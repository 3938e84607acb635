#include "cuda_driver.h"

#include <thread>

#include "fake_cuda_test.h"

namespace zerohop {
namespace {

using CudaDriverTest = FakeCudaTest;

TEST_F(CudaDriverTest, ListsDevicesWithoutMakingAContext) {
  fail("DEVICES", "2");
  const CudaProbe& probe = driver.probe();
  EXPECT_TRUE(probe.available);
  EXPECT_EQ(probe.reason, "");
  EXPECT_EQ(probe.driverVersion, 13000);
  ASSERT_EQ(probe.devices.size(), 2u);
  EXPECT_EQ(probe.devices[1].name, "Fake GPU 1");
  EXPECT_EQ(probe.devices[1].totalBytes, std::size_t{8} << 30);
  EXPECT_EQ(counts->retains, 0);
}

TEST_F(CudaDriverTest, TouchesTheDriverOnlyWhenAskedAndOnce) {
  EXPECT_EQ(counts->inits, 0);
  std::vector<std::thread> threads;
  for (int count = 0; count < 4; ++count) threads.emplace_back([&] { driver.probe(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts->inits, 1);
}

TEST_F(CudaDriverTest, SaysThatTheLibraryIsAbsent) {
  CudaDriver absent("/nonexistent/libcuda.so.1");
  EXPECT_FALSE(absent.probe().available);
  EXPECT_NE(absent.probe().reason.find("/nonexistent/libcuda.so.1"), std::string::npos);
}

TEST_F(CudaDriverTest, SaysThatALibraryIsNoDriver) {
  CudaDriver foreign("libm.so.6");
  EXPECT_FALSE(foreign.probe().available);
  EXPECT_EQ(foreign.probe().reason, "the CUDA driver has no cuInit");
}

TEST_F(CudaDriverTest, SaysWhichCallFailedAndHow) {
  fail("INIT", "100");
  EXPECT_FALSE(driver.probe().available);
  EXPECT_EQ(driver.probe().reason, "cuInit failed: CUDA_ERROR_NO_DEVICE (100)");
}

TEST_F(CudaDriverTest, IsNotAvailableWithoutADevice) {
  fail("DEVICES", "0");
  EXPECT_FALSE(driver.probe().available);
  EXPECT_EQ(driver.probe().reason, "the CUDA driver sees no device");
}

TEST_F(CudaDriverTest, AllocatesAndFreesFromAnyThreadAndLeavesNoContextCurrent) {
  std::string reason;
  void* data = nullptr;
  std::thread([&] { data = driver.allocateHost(4096, 0, reason); }).join();
  EXPECT_NE(data, nullptr) << reason;
  std::thread([&] { driver.releaseHost(data, 0); }).join();
  driver.releaseHost(driver.allocateHost(4096, 0, reason), 0);
  EXPECT_EQ(counts->retains, 1);
  EXPECT_EQ(counts->allocs, 2);
  EXPECT_EQ(counts->frees, 2);
  EXPECT_EQ(counts->contexts, 0);
}

TEST_F(CudaDriverTest, RefusesWithTheReasonWhereTheContextCannotBeRetained) {
  fail("RETAIN", "2");
  std::string reason;
  EXPECT_EQ(driver.allocateHost(4096, 0, reason), nullptr);
  EXPECT_EQ(reason, "cuDevicePrimaryCtxRetain failed: CUDA_ERROR_OUT_OF_MEMORY (2)");
}

TEST_F(CudaDriverTest, AllocatesInTheContextOfTheDeviceThatWasAskedFor) {
  fail("DEVICES", "2");
  std::string reason;
  void* second = driver.allocateHost(4096, 1, reason);
  EXPECT_NE(second, nullptr) << reason;
  EXPECT_EQ(counts->retains, 1);
  EXPECT_EQ(counts->allocsOn[0], 0);
  EXPECT_EQ(counts->allocsOn[1], 1);
  driver.releaseHost(second, 1);
  driver.releaseHost(driver.allocateHost(4096, 0, reason), 0);
  EXPECT_EQ(counts->retains, 2);
  EXPECT_EQ(counts->allocsOn[0], 1);
}

TEST_F(CudaDriverTest, RefusesADeviceThatIsNotThere) {
  std::string reason;
  EXPECT_EQ(driver.allocateHost(4096, 1, reason), nullptr);
  EXPECT_EQ(reason, "the CUDA driver sees no device 1");
  EXPECT_EQ(counts->retains, 0);
}

}  // namespace
}  // namespace zerohop
