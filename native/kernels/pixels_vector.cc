#include "kernels/pixels.h"

#if defined(__x86_64__) || defined(_M_X64)
#include "kernels/pixels_avx2.h"
#define ZEROHOP_VECTOR 1
#elif defined(__aarch64__)
#include "kernels/pixels_neon.h"
#define ZEROHOP_VECTOR 1
#endif

namespace zerohop::kernels {

#ifdef ZEROHOP_VECTOR

namespace {

bool available() {
  static const bool found = vector::available();
  return found;
}

// The last pixels, fewer than are done at once: by way of a whole group.
template <class Element>
void writeRest(Arithmetic arithmetic, const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes, std::size_t stride) {
  std::uint8_t group[3 * vector::kPixels] = {};
  Element values[3 * vector::kPixels];
  for (std::size_t at = 0; at < 3 * pixels; ++at) group[at] = rgb[at];
  vector::write(arithmetic, group, vector::kPixels, to, values, vector::kPixels);
  for (std::size_t plane = 0; plane < 3; ++plane) {
    for (std::size_t at = 0; at < pixels; ++at) planes[plane * stride + at] = values[plane * vector::kPixels + at];
  }
}

}  // namespace

template <class Element>
bool writePlanesByVector(Arithmetic arithmetic, const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to,
                         Element* planes) {
  if (!available()) return false;
  const std::size_t whole = pixels / vector::kPixels * vector::kPixels;
  vector::write(arithmetic, rgb, whole, to, planes, pixels);
  if (whole < pixels) writeRest(arithmetic, rgb + 3 * whole, pixels - whole, to, planes + whole, pixels);
  return true;
}

const char* vectorInstructions() { return available() ? vector::kInstructions : "none"; }

#else

template <class Element>
bool writePlanesByVector(Arithmetic, const std::uint8_t*, std::size_t, const Normalisation<Element>&, Element*) {
  return false;
}

const char* vectorInstructions() { return "none"; }

#endif

template bool writePlanesByVector(Arithmetic, const std::uint8_t*, std::size_t, const Normalisation<float>&, float*);
template bool writePlanesByVector(Arithmetic, const std::uint8_t*, std::size_t, const Normalisation<Half>&, Half*);

}  // namespace zerohop::kernels
