#include "jpeg/turbo_jpeg.h"

#include <memory>
#include <mutex>
#include <stdexcept>

#include "dynamic_library.h"

namespace zerohop::jpeg {

namespace {

// As turbojpeg.h numbers them.
constexpr int kDecompress = 1;
constexpr int kStopOnWarning = 0, kJpegWidth = 5, kJpegHeight = 6, kScanLimit = 13;
constexpr int kRgb = 0;

std::mutex openMutex;
const TurboJpeg* library = nullptr;  // of the process, and never closed

template <class Function>
void find(void* handle, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(findSymbol(handle, name));
  if (function == nullptr) throw std::runtime_error(path + " has no " + name + ": it is not libjpeg-turbo 3");
}

}  // namespace

void TurboJpeg::open(const std::string& path) {
  const std::lock_guard lock(openMutex);
  if (library == nullptr) library = new TurboJpeg(path);
}

const TurboJpeg& TurboJpeg::opened() {
  const std::lock_guard lock(openMutex);
  if (library == nullptr) throw std::runtime_error("libjpeg-turbo has not been opened");
  return *library;
}

TurboJpeg::TurboJpeg(const std::string& path) {
  std::string error;
  void* handle = openLibrary(path, error);
  if (handle == nullptr) throw std::runtime_error(error);
  find(handle, path, "tj3Init", init_);
  find(handle, path, "tj3Destroy", destroy_);
  find(handle, path, "tj3Set", set_);
  find(handle, path, "tj3Get", get_);
  find(handle, path, "tj3DecompressHeader", readHeader_);
  find(handle, path, "tj3SetScalingFactor", setScalingFactor_);
  find(handle, path, "tj3Decompress8", decompress_);
}

bool TurboJpeg::decode(const std::uint8_t* bytes, std::size_t count, const Frame& frame, std::uint8_t* rgb) const {
  const std::unique_ptr<void, void (*)(void*)> decoder(init_(kDecompress), destroy_);
  if (decoder == nullptr) return false;
  if (set_(decoder.get(), kStopOnWarning, 1) != 0 || set_(decoder.get(), kScanLimit, kMostScans) != 0) return false;
  if (readHeader_(decoder.get(), bytes, count) != 0) return false;
  if (get_(decoder.get(), kJpegWidth) != frame.width || get_(decoder.get(), kJpegHeight) != frame.height) return false;
  if (setScalingFactor_(decoder.get(), {1, frame.shrink}) != 0) return false;
  return decompress_(decoder.get(), bytes, count, rgb, 0, kRgb) == 0;
}

}  // namespace zerohop::jpeg
