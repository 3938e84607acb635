// What the calling thread has computed, or had computed.
#pragma once

#ifdef _WIN32
#include <windows.h>
#else
#include <ctime>
#endif

namespace zerohop {

// Its CPU time so far, in milliseconds.
inline double threadCpuMs() {
#ifdef _WIN32
  FILETIME created, ended, kernel, user;
  GetThreadTimes(GetCurrentThread(), &created, &ended, &kernel, &user);
  const auto ms = [](const FILETIME& time) { return (time.dwHighDateTime * 4294967296.0 + time.dwLowDateTime) / 1e4; };
  return ms(kernel) + ms(user);
#else
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
#endif
}

// What others have computed for the calling thread while it waited for them, in milliseconds.
inline double& computedElsewhereMs() {
  thread_local double ms = 0;
  return ms;
}

}  // namespace zerohop
