// A lock that ends with the process that holds it, however that ends.
#pragma once

#include <string>

namespace zerohop {

// The descriptor that holds the lock of a file, which is made where it is not there; -1 while somebody else has it. Closed, it is given
// up. Throws std::system_error.
int lockFile(const std::string& path);

}  // namespace zerohop
