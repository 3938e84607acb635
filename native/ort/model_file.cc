#include "model_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "file.h"

namespace zerohop::ort {

namespace {

namespace fs = std::filesystem;

#ifndef _WIN32
// When anything of a file was changed: unlike the time of its content nobody can set it, and archives and copies do set that.
std::string timeOfStatus(const struct stat& status) {
#ifdef __APPLE__
  const timespec& time = status.st_ctimespec;
#else
  const timespec& time = status.st_ctim;
#endif
  return std::to_string(time.tv_sec) + '.' + std::to_string(time.tv_nsec);
}
#endif

// Where a file is on the disk, its size and its times of change; of one that is not there, that.
std::string stampOf(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return "none";
  // Some libraries count in more bits than can be written.
  const auto changed = static_cast<long long>(fs::last_write_time(path, error).time_since_epoch().count());
  std::string stamp = std::to_string(size) + ' ' + std::to_string(changed);
#ifndef _WIN32
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) stamp += ' ' + std::to_string(status.st_dev) + ' ' + std::to_string(status.st_ino) + ' ' + timeOfStatus(status);
#endif
  return stamp;
}

// An ONNX file names the files of its weights in entries `location`: field 1 of a message of two strings, the key; the name is field 2.
constexpr char kLocationKey[] = "\x0a\x08location";
constexpr char kNameField = 0x12;
constexpr std::ptrdiff_t kKeyBytes = sizeof(kLocationKey) - 1;
constexpr std::size_t kMostLocationBytes = 4096;
// Of no model: whoever makes up such a file is not to fill this process's memory. What comes then does not tell it from another.
constexpr std::size_t kMostLocations = 65'536;

using Place = std::vector<char>::const_iterator;

// Adds the name whose length is told at a place, if it ends before `end`; if it ends there, where that is asked.
void addName(std::set<std::string>& names, Place place, Place end, bool exactly) {
  std::size_t length = 0;
  for (int shift = 0; place != end && shift < 14; shift += 7) {  // a varint
    const auto byte = static_cast<unsigned char>(*place++);
    length |= static_cast<std::size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  const auto left = static_cast<std::size_t>(end - place);
  if (length <= kMostLocationBytes && (exactly ? length == left : length <= left)) names.emplace(place, place + static_cast<std::ptrdiff_t>(length));
}

// A part of a file, from an offset up to another.
struct Part {
  std::uint64_t from;
  std::uint64_t to;
};

bool seekTo(std::FILE* file, std::uint64_t offset) {
#ifdef _WIN32
  return _fseeki64(file, static_cast<long long>(offset), SEEK_SET) == 0;
#else
  return fseeko(file, static_cast<off_t>(offset), SEEK_SET) == 0;
#endif
}

// Most fields of a file that are looked at. Each takes a tenth of a microsecond, and a file may be made up of fields of two bytes.
constexpr std::size_t kMostFields = 1'000'000;

// Reads the fields of a message of the protobuf format one after the other. See protobuf.dev/programming-guides/encoding.
class Fields {
 public:
  // `left` is how many more fields of the file may be read.
  Fields(std::FILE* file, Part message, std::size_t& left) : file_(file), next_(message.from), end_(message.to), left_(left) {}

  // The number of the next field and where its content is; false after the last one, and for what is no message: then `isWhole` is false, too.
  bool read(std::uint64_t& number, Part& content) {
    if (next_ >= end_ || left_ == 0 || !seekTo(file_, next_)) return false;
    --left_;
    std::uint64_t tag = 0;
    if (!readVarint(tag)) return false;
    number = tag >> 3;
    std::uint64_t length = 0;
    switch (tag & 7) {
      case 0:
        if (!readVarint(length)) return false;
        length = 0;  // it was the content
        break;
      case 1:
        length = 8;
        break;
      case 2:
        if (!readVarint(length)) return false;
        break;
      case 5:
        length = 4;
        break;
      default:
        return false;
    }
    if (length > end_ - std::min(next_, end_)) return false;
    content = {next_, next_ + length};
    next_ += length;
    return true;
  }

  bool isWhole() const { return next_ == end_; }

 private:
  bool readVarint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const int byte = std::fgetc(file_);
      if (byte == EOF) return false;
      ++next_;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::FILE* file_;
  std::uint64_t next_;
  std::uint64_t end_;
  std::size_t& left_;
};

constexpr std::uint64_t kGraphOfModel = 7;
constexpr std::uint64_t kInitializerOfGraph = 5;
constexpr std::uint64_t kRawDataOfTensor = 9;
constexpr std::uint64_t kMuchData = 1 << 14;

// The parts of a model that may name files: all but the weights in it, which are most of a large one. The whole of what is no ONNX file.
std::vector<Part> partsWithoutWeights(std::FILE* file, std::uint64_t size) {
  std::vector<Part> parts;
  std::uint64_t from = 0;
  std::uint64_t number = 0;
  Part part{};
  std::size_t left = kMostFields;
  Fields model(file, {0, size}, left);
  while (model.read(number, part)) {
    if (number != kGraphOfModel) continue;
    Fields graph(file, part, left);
    while (graph.read(number, part)) {
      if (number != kInitializerOfGraph) continue;
      Fields tensor(file, part, left);
      while (tensor.read(number, part)) {
        if (number != kRawDataOfTensor || part.to - part.from < kMuchData) continue;
        parts.push_back({from, part.from});
        from = part.to;
      }
      if (!tensor.isWhole()) return {{0, size}};
    }
    if (!graph.isWhole()) return {{0, size}};
  }
  if (!model.isWhole()) return {{0, size}};
  parts.push_back({from, size});
  return parts;
}

// The names of the files in which a model has weights. What looks like one and is none does no harm.
std::set<std::string> locationsIn(const fs::path& path) {
  std::set<std::string> locations;
  const File file = openToRead(path);
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (file == nullptr || error) return locations;
  const std::boyer_moore_horspool_searcher searcher(kLocationKey, kLocationKey + kKeyBytes);
  std::vector<char> bytes;
  std::size_t searches = 0;
  const auto kept = static_cast<std::ptrdiff_t>(kKeyBytes + 3 + kMostLocationBytes);  // of one piece for the next, so that none is cut in two
  for (Part left : partsWithoutWeights(file.get(), size)) {
    if (!seekTo(file.get(), left.from)) return locations;
    while (left.from < left.to) {
      const auto before = std::min(static_cast<std::ptrdiff_t>(bytes.size()), kept);
      bytes.erase(bytes.begin(), bytes.end() - before);
      const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left.to - left.from, 1 << 20));
      bytes.resize(static_cast<std::size_t>(before) + piece);
      const std::size_t count = std::fread(bytes.data() + before, 1, piece, file.get());
      bytes.resize(static_cast<std::size_t>(before) + count);
      left.from += count;
      if (count == 0 || locations.size() >= kMostLocations || searches >= kMostLocations) return locations;
      for (auto at = std::search(bytes.cbegin(), bytes.cend(), searcher); at != bytes.cend(); at = std::search(at + 1, bytes.cend(), searcher)) {
        const auto next = at + kKeyBytes;
        if (next != bytes.cend() && *next == kNameField) {
          addName(locations, next + 1, bytes.cend(), false);
          continue;
        }
        // Fields may come in any order: then the name ends where the key begins.
        if (++searches > kMostLocations) break;
        for (auto start = at - std::min(at - bytes.cbegin(), kept); start != at; ++start) {
          if (*start == kNameField) addName(locations, start + 1, at, true);
        }
      }
    }
  }
  return locations;
}

// To look through what is no ONNX file, and large, takes some tenths of a second: it is done once for each state of it.
std::set<std::string> knownLocationsIn(const fs::path& path, const std::string& stamp) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::pair<std::string, std::set<std::string>>>;
  {
    const std::lock_guard lock(mutex);
    const auto found = known.find(path.u8string());
    if (found != known.end() && found->second.first == stamp) return found->second.second;
  }
  auto locations = locationsIn(path);
  const std::lock_guard lock(mutex);
  known[path.u8string()] = {stamp, locations};
  return locations;
}

}  // namespace

std::string identityOfFile(const std::string& path) {
  std::error_code error;
  // As it was given: weights outside of the file are looked for beside a link, not beside what it leads to.
  const fs::path absolute = fs::absolute(fs::u8path(path), error);
  const std::string stamp = stampOf(absolute);
  std::string identity = absolute.u8string() + '\n' + stamp;
  for (const std::string& location : knownLocationsIn(absolute, stamp)) {
    identity += '\n' + location + '\n' + stampOf(absolute.parent_path() / fs::u8path(location));
  }
  return identity;
}

std::uintmax_t sizeOfFile(const std::string& path) {
  std::error_code error;
  const auto sizeOf = [&](const fs::path& file) {
    const auto size = fs::file_size(file, error);
    return error ? 0 : size;
  };
  const fs::path absolute = fs::absolute(fs::u8path(path), error);
  auto bytes = sizeOf(absolute);
  for (const std::string& location : knownLocationsIn(absolute, stampOf(absolute))) bytes += sizeOf(absolute.parent_path() / fs::u8path(location));
  return bytes;
}

}  // namespace zerohop::ort
