#include "ort/ort_library.h"

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

std::string refusal(const std::string& path) {
  try {
    OrtLibrary::open(path);
  } catch (const OrtError& error) {
    return error.what();
  }
  return "";
}

// Each test runs in a process of its own: a process has one library.
TEST(OrtLibraryTest, SaysThatTheFileIsAbsent) { EXPECT_NE(refusal("/nonexistent/libonnxruntime.so.1").find("/nonexistent/"), std::string::npos); }

TEST(OrtLibraryTest, SaysThatALibraryIsNotOnnxRuntime) { EXPECT_EQ(refusal("libm.so.6"), "libm.so.6 has no OrtGetApiBase: it is not ONNX Runtime"); }

TEST(OrtLibraryTest, SaysThatOnnxRuntimeIsTooOld) {
  std::string error;
  auto* counts = static_cast<FakeOrtCounts*>(findSymbol(openLibrary(FAKE_ORT_PATH, error), "fakeOrtCounts"));
  counts->apiVersion = 23;
  EXPECT_EQ(refusal(FAKE_ORT_PATH), "ONNX Runtime 1.99.0 is older than 1.24");
  counts->apiVersion = 24;
  EXPECT_EQ(refusal(FAKE_ORT_PATH), "") << "what has failed once may be tried again";
}

class OpenedOrtTest : public FakeOrtTest {};

TEST_F(OpenedOrtTest, IsOneForTheProcess) {
  EXPECT_EQ(&OrtLibrary::open(FAKE_ORT_PATH), &library);
  EXPECT_EQ(&OrtLibrary::opened(), &library);
  EXPECT_EQ(library.version, "1.99.0");
  EXPECT_NE(refusal("/elsewhere/libonnxruntime.so.1").find("this process uses the ONNX Runtime 1.99.0"), std::string::npos);
}

TEST_F(OpenedOrtTest, TurnsAStatusIntoAnException) {
  counts.failAt = 10;
  EXPECT_THROW(makeSessionOptions(library, {}), OrtError);
  counts.failAt = -1;
}

TEST_F(OpenedOrtTest, RefusesASettingThatIsUnknown) { EXPECT_THROW(makeSessionOptions(library, {{"colour", "", "red", {}}}), OrtError); }

TEST_F(OpenedOrtTest, KnowsEqualSettingsByOneKey) {
  const SessionSetting threads{"intraOpNumThreads", "", "2", {}};
  EXPECT_EQ(keyOf({threads}), keyOf({threads}));
  EXPECT_NE(keyOf({threads}), keyOf({threads, threads}));
  EXPECT_NE(keyOf({{"config", "a", "bc", {}}}), keyOf({{"config", "ab", "c", {}}}));
  EXPECT_NE(keyOf({{"provider", "CUDA", "", {{"a", "b"}}}}), keyOf({{"provider", "CUDA", "", {{"a", "c"}}}}));
}

}  // namespace
}  // namespace zerohop::ort
