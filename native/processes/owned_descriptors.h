// Descriptors that JavaScript has as numbers. A thread that is terminated closes none of its own: they are closed with its environment.
#pragma once

#include <mutex>
#include <unordered_map>

namespace zerohop {

class OwnedDescriptors {
 public:
  // Those of all environments of the process.
  static OwnedDescriptors& all();

  void add(const void* owner, int descriptor);
  // It is closed, or somebody else's from now on. Nothing for one that nobody has.
  void remove(int descriptor);
  void closeAll(const void* owner);

 private:
  std::mutex mutex_;
  std::unordered_map<int, const void*> owners_;
};

}  // namespace zerohop
