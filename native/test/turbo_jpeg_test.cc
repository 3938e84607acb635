#include "jpeg/turbo_jpeg.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace zerohop::jpeg {
namespace {

std::string refusal(const std::string& path) {
  try {
    TurboJpeg::open(path);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "opened";
}

TEST(TurboJpeg, SaysWhyItCannotBeOpened) {
  EXPECT_NE(refusal("/none/such/libturbojpeg.so.0").find("libturbojpeg.so.0"), std::string::npos);
#ifdef FAKE_CUDA_PATH
  EXPECT_NE(refusal(FAKE_CUDA_PATH).find("has no tj3Init: it is not libjpeg-turbo 3"), std::string::npos);
#endif
  EXPECT_THROW(TurboJpeg::opened(), std::runtime_error);
}

TEST(Frame, IsDecodedToAPixelMoreWhereSomethingIsOver) {
  const Frame frame{17, 16, 8};
  EXPECT_EQ(frame.decodedWidth(), 3u);
  EXPECT_EQ(frame.decodedHeight(), 2u);
  EXPECT_EQ(frame.wholeWidth(), 2u);
  EXPECT_EQ(frame.wholeHeight(), 2u);
}

}  // namespace
}  // namespace zerohop::jpeg
