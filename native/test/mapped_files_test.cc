#include "ort/mapped_files.h"

#ifdef __linux__

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace zerohop::ort {
namespace {

constexpr std::size_t kBytes = 9 << 20;

class MappedFilesTest : public testing::Test {
 protected:
  MappedFilesTest() {
    std::filesystem::create_directories(folder / "deeper");
    weights = mapped(folder / "weights file");
    others = mapped(folder / "deeper" / "weights");
  }
  ~MappedFilesTest() override {
    munmap(weights, kBytes);
    munmap(others, kBytes);
    std::filesystem::remove_all(folder);
  }

  // A file of pages that are all in memory, of which this process has none in its page table.
  static void* mapped(const std::filesystem::path& path) {
    std::ofstream(path) << std::string(kBytes, 'x');
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* start = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return start;
  }

  // What is entered of a mapping.
  static std::size_t entered(void* start) {
    char key[32];
    std::snprintf(key, sizeof key, "%lx-", reinterpret_cast<unsigned long>(start));
    std::ifstream smaps("/proc/self/smaps");
    std::string line;
    while (std::getline(smaps, line) && line.rfind(key, 0) != 0) continue;
    while (std::getline(smaps, line) && line.rfind("Rss:", 0) != 0) continue;
    return std::strtoul(line.c_str() + 4, nullptr, 10) << 10;
  }

  const std::filesystem::path folder = std::filesystem::u8path(testing::TempDir()) / ("zerohop-mapped-" + std::to_string(getpid()));
  void* weights = nullptr;
  void* others = nullptr;
};

TEST_F(MappedFilesTest, AreEnteredThatLieBesideTheModel) {
  EXPECT_EQ(entered(weights), 0u);
  const std::size_t done = enterResidentPages((folder / "model.onnx").u8string(), [] { return true; });
  if (done == 0) GTEST_SKIP() << "this system cannot enter pages ahead";
  EXPECT_EQ(done, kBytes);
  EXPECT_EQ(entered(weights), kBytes);
  EXPECT_EQ(entered(others), 0u);
}

TEST_F(MappedFilesTest, AreLeftWhereTheyAreWhenNobodyWantsThemAnyMore) {
  int pieces = 0;
  const std::size_t done = enterResidentPages((folder / "model.onnx").u8string(), [&] { return pieces++ < 1; });
  EXPECT_LT(done, kBytes);
  EXPECT_LT(entered(weights), kBytes);
}

TEST_F(MappedFilesTest, MayLieNowhere) {
  EXPECT_EQ(enterResidentPages("/nowhere/model.onnx", [] { return true; }), 0u);
  EXPECT_EQ(enterResidentPages("", [] { return true; }), 0u);
}

}  // namespace
}  // namespace zerohop::ort

#endif
