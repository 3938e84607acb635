#include "ort/session_options.h"

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

class SessionOptionsTest : public FakeOrtTest {
 protected:
  // What they set.
  std::string set(const std::vector<SessionSetting>& settings) {
    counts.set.clear();
    makeSessionOptions(library, settings);
    return counts.set;
  }
};

TEST_F(SessionOptionsTest, GiveProvidersTheirOptionsByName) {
  const Entries entries{{"device_id", "1"}, {"gpu_mem_limit", "1024"}};
  EXPECT_EQ(set({{"provider", "CUDA", "", entries}}), "CUDA device_id=1 gpu_mem_limit=1024");
  EXPECT_EQ(set({{"provider", "TensorRT", "", entries}}), "TensorRT device_id=1 gpu_mem_limit=1024");
  EXPECT_EQ(set({{"provider", "QNN", "", entries}}), "QNN device_id=1 gpu_mem_limit=1024");
}

TEST_F(SessionOptionsTest, SayWhichOptionTheirProviderRefuses) {
  try {
    makeSessionOptions(library, {{"provider", "CUDA", "", {{"device_id", "1"}, {"gpu_mem_limit", "wrong"}}}});
    ADD_FAILURE() << "nothing was refused";
  } catch (const OrtError& error) {
    EXPECT_STREQ(error.what(), "Failed to parse provider option \"gpu_mem_limit\" of device_id=1 gpu_mem_limit=wrong");
  }
}

TEST_F(SessionOptionsTest, FixDimensionsByTheirDenotation) { EXPECT_EQ(set({{"freeDimensionByDenotation", "BATCH", "4", {}}}), "BATCH:4 "); }

TEST_F(SessionOptionsTest, HoldTheContentsOfFilesOfExternalData) {
  const SessionSetting file{"externalFile", "weights.data", "7", {}, std::make_shared<const std::string>("content")};
  EXPECT_EQ(set({file}), "weights.data:content ");
  SessionSetting other = file;
  other.value = "8";
  EXPECT_NE(keyOf({file}), keyOf({other})) << "other bytes";
}

TEST_F(SessionOptionsTest, SayWhatEachRunIsToHave) {
  const std::vector<SessionSetting> settings{{"runConfig", "a", "1", {}}, {"logId", "", "x", {}}, {"runConfig", "b", "2", {}}};
  EXPECT_EQ(set(settings), "");
  EXPECT_EQ(runEntriesOf(settings), (Entries{{"a", "1"}, {"b", "2"}}));
}

TEST_F(SessionOptionsTest, LeaveNothingBehindWhenSomethingFails) {
  const std::vector<std::pair<int, SessionSetting>> failures{
      {79, {"freeDimensionByDenotation", "BATCH", "4", {}}}, {124, {"freeDimension", "N", "4", {}}},
      {170, {"provider", "TensorRT", "", {}}},               {171, {"provider", "TensorRT", "", {}}},
      {172, {"provider", "TensorRT", "", {}}},               {204, {"provider", "CUDA", "", {}}},
      {279, {"externalFile", "w", "1", {}, std::make_shared<const std::string>()}},
      {206, {"provider", "CUDA", "", {}}},                   {216, {"provider", "QNN", "", {}}},
  };
  for (const auto& [entry, setting] : failures) {
    counts.failAt = entry;
    EXPECT_THROW(makeSessionOptions(library, {setting}), OrtError) << entry;
  }
  counts.failAt = -1;
}

}  // namespace
}  // namespace zerohop::ort
