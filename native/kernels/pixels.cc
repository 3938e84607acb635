#include "kernels/pixels.h"

#include <array>
#include <cstring>

namespace zerohop::kernels {

namespace {

constexpr std::size_t kValues = 256;

// Whether arithmetic gives what the table says for all that a pixel can be: tried anew for each image, which costs what
// 256 pixels cost.
template <class Element>
bool isExact(Arithmetic arithmetic, const Normalisation<Element>& to) {
  static const std::array<std::uint8_t, 3 * kValues> all = [] {
    std::array<std::uint8_t, 3 * kValues> bytes{};
    for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<std::uint8_t>(at / 3);
    return bytes;
  }();
  Element given[3 * kValues];
  return writePlanesByVector(arithmetic, all.data(), kValues, to, given) && std::memcmp(given, to.table, sizeof(given)) == 0;
}

}  // namespace

template <class Element>
void writePlanes(const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes) {
  for (const Arithmetic arithmetic : {Arithmetic::kSplit, Arithmetic::kDouble}) {
    if (pixels >= kValues && isExact(arithmetic, to) && writePlanesByVector(arithmetic, rgb, pixels, to, planes)) return;
  }
  writePlanesByTable(rgb, pixels, to, planes);
}

template <class Element>
void writePlanesByTable(const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes) {
  const Element* first = to.table;
  const Element* second = first + kValues;
  const Element* third = second + kValues;
  const std::size_t from = to.swapped ? 2 : 0;
  for (std::size_t at = 0; at < pixels; ++at, rgb += 3) {
    planes[at] = first[rgb[from]];
    planes[at + pixels] = second[rgb[1]];
    planes[at + 2 * pixels] = third[rgb[2 - from]];
  }
}

template void writePlanes(const std::uint8_t*, std::size_t, const Normalisation<float>&, float*);
template void writePlanes(const std::uint8_t*, std::size_t, const Normalisation<Half>&, Half*);
template void writePlanesByTable(const std::uint8_t*, std::size_t, const Normalisation<float>&, float*);
template void writePlanesByTable(const std::uint8_t*, std::size_t, const Normalisation<Half>&, Half*);

}  // namespace zerohop::kernels
