#ifdef __linux__

#include "file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace zerohop {

int lockFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file == -1) throw std::system_error(errno, std::generic_category(), path);
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int why = errno;
  close(file);
  if (why == EWOULDBLOCK || why == EINTR) return -1;
  throw std::system_error(why, std::generic_category(), path);
}

}  // namespace zerohop

#endif
