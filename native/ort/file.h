// A file opened to be read. Streams of the C++ library would bring its locales along: a fifth of the addon where that library is part of it.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>

namespace zerohop::ort {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

using File = std::unique_ptr<std::FILE, FileCloser>;

// Null where it cannot be opened.
inline File openToRead(const std::filesystem::path& path) {
#ifdef _WIN32
  return File(_wfopen(path.c_str(), L"rb"));
#else
  return File(std::fopen(path.c_str(), "rb"));
#endif
}

}  // namespace zerohop::ort
