// AVX2, and what every processor with it has beside, in functions of their own: the rest of the addon runs on every x86-64.
#pragma once

#include <immintrin.h>

#ifdef _MSC_VER
#include <intrin.h>
#define ZEROHOP_AVX2
#else
#include <cpuid.h>
#define ZEROHOP_AVX2 __attribute__((target("avx2,fma,f16c")))
#endif

namespace zerohop::kernels {

inline bool hasAvx2() {
  constexpr unsigned kFma = 1u << 12, kF16c = 1u << 29;
#ifdef _MSC_VER
  int first[4], seventh[4];
  __cpuid(first, 1);
  __cpuidex(seventh, 7, 0);
  constexpr unsigned kOsXsave = 1u << 27, kAvx2 = 1u << 5;
  const unsigned features = static_cast<unsigned>(first[2]);
  const bool saved = (features & kOsXsave) != 0 && (_xgetbv(0) & 6) == 6;
  const bool avx2 = saved && (static_cast<unsigned>(seventh[1]) & kAvx2) != 0;
#else
  unsigned a = 0, b = 0, features = 0, d = 0;
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &features, &d) != 0;
#endif
  return avx2 && (features & kFma) != 0 && (features & kF16c) != 0;
}

}  // namespace zerohop::kernels
