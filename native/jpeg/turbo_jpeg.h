// libjpeg-turbo by its TurboJPEG API (of version 3), found at run time: where it is not there, others decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace zerohop::jpeg {

// An image as its header tells it, and how many of its pixels become one in each direction while it is decoded.
struct Frame {
  int width, height;
  int shrink;  // 1, 2, 4 or 8

  // What is over makes one more pixel, which is not wanted: the rest is whole.
  std::size_t wholeWidth() const { return static_cast<std::size_t>(width / shrink); }
  std::size_t wholeHeight() const { return static_cast<std::size_t>(height / shrink); }
  std::size_t decodedWidth() const { return static_cast<std::size_t>((width + shrink - 1) / shrink); }
  std::size_t decodedHeight() const { return static_cast<std::size_t>((height + shrink - 1) / shrink); }
};

class TurboJpeg {
 public:
  // Opens the library that the process decodes with from then on: the first one stays. Throws std::runtime_error with the
  // loader's words.
  static void open(const std::string& path);

  // Throws std::runtime_error where none has been opened.
  static const TurboJpeg& opened();

  // Writes the pixels as RGB, a byte each. False for a file that the library as much as warns of, whose header says something
  // else, or that goes over the image more than kMostScans times. Nobody may write to `bytes` meanwhile.
  bool decode(const std::uint8_t* bytes, std::size_t count, const Frame& frame, std::uint8_t* rgb) const;

  // A progressive file of a camera or an editor has about ten. Each is a pass over all pixels, and may be a few bytes long.
  static constexpr int kMostScans = 32;

 private:
  explicit TurboJpeg(const std::string& path);

  struct ScalingFactor {
    int numerator, denominator;
  };

  void* (*init_)(int type);
  void (*destroy_)(void* decoder);
  int (*set_)(void* decoder, int parameter, int value);
  int (*get_)(void* decoder, int parameter);
  int (*readHeader_)(void* decoder, const unsigned char* bytes, std::size_t count);
  int (*setScalingFactor_)(void* decoder, ScalingFactor factor);
  int (*decompress_)(void* decoder, const unsigned char* bytes, std::size_t count, unsigned char* pixels, int pitch, int format);
};

}  // namespace zerohop::jpeg
