#include "memory_source.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#endif

namespace zerohop {

#ifdef _WIN32

void* PlainMemory::allocate(std::size_t bytes, std::string& reason) {
  void* data = VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (data == nullptr) reason = "VirtualAlloc failed: Windows error " + std::to_string(GetLastError());
  return data;
}

void PlainMemory::release(void* data, std::size_t) { VirtualFree(data, 0, MEM_RELEASE); }

#else

void* PlainMemory::allocate(std::size_t bytes, std::string& reason) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data != MAP_FAILED) return data;
  reason = std::string("mmap failed: ") + std::strerror(errno);
  return nullptr;
}

void PlainMemory::release(void* data, std::size_t bytes) { munmap(data, bytes); }

#endif

}  // namespace zerohop
