#include "mapped_files.h"

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "file.h"
#endif

namespace zerohop::ort {

#ifdef __linux__

namespace {

namespace fs = std::filesystem;

constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which headers of older systems do not have
constexpr std::size_t kPieceBytes = 4 << 20;

struct Range {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
};

// Where files of a folder are mapped to be read.
std::vector<Range> mappedFrom(const fs::path& folder) {
  std::vector<Range> ranges;
  const File maps = openToRead("/proc/self/maps");
  char* line = nullptr;
  std::size_t lineBytes = 0;
  while (maps != nullptr && getline(&line, &lineBytes, maps.get()) > 0) {
    line[std::strcspn(line, "\n")] = '\0';
    Range range;
    int pathAt = 0;
    char readable = '-';
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %c%*3s %*s %*s %*s %n", &range.start, &range.end, &readable, &pathAt) < 3) continue;
    if (readable == 'r' && fs::path(line + pathAt).parent_path() == folder) ranges.push_back(range);
  }
  std::free(line);
  return ranges;
}

// Enters of a piece what is in memory, one run of pages after the other; how many bytes that is.
std::size_t enterRuns(std::uintptr_t start, std::size_t byteLength, std::vector<unsigned char>& pages) {
  const auto pageBytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  pages.resize(byteLength / pageBytes);
  if (mincore(reinterpret_cast<void*>(start), byteLength, pages.data()) != 0) return 0;
  const auto isResident = [](unsigned char page) { return (page & 1) != 0; };
  std::size_t done = 0;
  for (auto end = pages.begin();;) {
    const auto first = std::find_if(end, pages.end(), isResident);
    if (first == pages.end()) return done;
    end = std::find_if_not(first, pages.end(), isResident);
    const std::size_t runBytes = static_cast<std::size_t>(end - first) * pageBytes;
    void* run = reinterpret_cast<void*>(start + static_cast<std::size_t>(first - pages.begin()) * pageBytes);
    if (madvise(run, runBytes, kPopulateRead) != 0) return done;
    done += runBytes;
  }
}

}  // namespace

std::size_t enterResidentPages(const std::string& modelPath, const std::function<bool()>& goesOn) {
  std::error_code error;
  const auto folder = fs::canonical(fs::u8path(modelPath).parent_path(), error);
  std::size_t done = 0;
  std::vector<unsigned char> pages;
  for (const auto [start, end] : error ? std::vector<Range>() : mappedFrom(folder)) {
    for (auto at = start; at < end && goesOn(); at += kPieceBytes) done += enterRuns(at, std::min<std::size_t>(kPieceBytes, end - at), pages);
  }
  return done;
}

#else

std::size_t enterResidentPages(const std::string&, const std::function<bool()>&) { return 0; }

#endif

}  // namespace zerohop::ort
