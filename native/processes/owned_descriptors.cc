#ifdef __linux__

#include "owned_descriptors.h"

#include <unistd.h>

namespace zerohop {

OwnedDescriptors& OwnedDescriptors::all() {
  static auto* descriptors = new OwnedDescriptors;  // threads may end after this one's statics
  return *descriptors;
}

void OwnedDescriptors::add(const void* owner, int descriptor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  owners_[descriptor] = owner;
}

void OwnedDescriptors::remove(int descriptor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  owners_.erase(descriptor);
}

void OwnedDescriptors::closeAll(const void* owner) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto each = owners_.begin(); each != owners_.end();) {
    if (each->second != owner) {
      ++each;
      continue;
    }
    close(each->first);
    each = owners_.erase(each);
  }
}

}  // namespace zerohop

#endif
