// Checks of this library's own assumptions. Unlike assert they hold in every build: what goes on after one that failed
// would write into memory of others. Arguments from JavaScript are not checked with it, those throw.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace zerohop {

[[noreturn]] inline void checkFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "zerohop: internal check failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace zerohop

#define ZEROHOP_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::zerohop::checkFailed(#condition, __FILE__, __LINE__))
