// From decoded pixels to the input of a model, in one pass: 8-bit RGB, a pixel after the other, becomes three planes of
// normalised float32 or float16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zerohop::kernels {

// The bits of an IEEE 754 binary16 number.
enum class Half : std::uint16_t {};

// What becomes of a pixel's three values, in the order of the planes.
template <class Element>
struct Normalisation {
  const Element* table;  // of each plane what each of the 256 values becomes: this is what counts
  double factor[3];      // value * factor + offset gives the same, but perhaps for a rounding
  double offset[3];
  bool swapped;          // the first plane is blue
};

// `planes` has room for 3 * pixels elements. Equal to the table in every bit, whichever way is taken.
template <class Element>
void writePlanes(const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes);

// The same by looking up each value.
template <class Element>
void writePlanesByTable(const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to, Element* planes);

// How numbers are computed.
enum class Arithmetic {
  kSplit,   // in floats, of which one part is exact and the other small: rounded once, but for what the small part lacks
  kDouble,  // in doubles
};

// The same by arithmetic on many values at once, which is not always equal to the table; false where the processor has no
// such instructions.
template <class Element>
bool writePlanesByVector(Arithmetic arithmetic, const std::uint8_t* rgb, std::size_t pixels, const Normalisation<Element>& to,
                         Element* planes);

// Which instructions that is done with: "avx2", "neon" or "none".
const char* vectorInstructions();

}  // namespace zerohop::kernels
