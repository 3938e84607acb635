#ifdef __linux__

#include "shared_area.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace zerohop {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

SharedArea::SharedArea(int descriptor, std::size_t bytes) : bytes_(bytes) {
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data_ == MAP_FAILED) fail("mmap");
  // A child made by fork would hold it beyond the peer's knowledge.
  madvise(data_, bytes, MADV_DONTFORK);
}

SharedArea::~SharedArea() { munmap(data_, bytes_); }

SharedArea* SharedArea::create(std::size_t bytes, int& descriptor) {
  const int made = memfd_create("zerohop", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made == -1) fail("memfd_create");
  try {
    if (ftruncate(made, static_cast<off_t>(bytes)) == -1) fail("ftruncate");
    if (fcntl(made, F_ADD_SEALS, kSeals) == -1) fail("fcntl(F_ADD_SEALS)");
    auto* area = new SharedArea(made, bytes);
    descriptor = made;
    return area;
  } catch (...) {
    close(made);
    throw;
  }
}

SharedArea* SharedArea::open(int descriptor, std::size_t bytes) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals == -1 || (seals & F_SEAL_SHRINK) == 0) throw std::runtime_error("shared memory that can shrink was handed over");
  struct stat found {};
  if (fstat(descriptor, &found) == -1) fail("fstat");
  if (found.st_size < 0 || static_cast<std::size_t>(found.st_size) != bytes) {
    throw std::runtime_error("shared memory of " + std::to_string(found.st_size) + " bytes was handed over, expected " + std::to_string(bytes));
  }
  return new SharedArea(descriptor, bytes);
}

}  // namespace zerohop

#endif
