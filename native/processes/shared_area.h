// Memory that two processes map, whose size neither can change: to touch what a peer has cut off would end the process.
#pragma once

#include <cstddef>
#include <string>

namespace zerohop {

// A mapping; it is undone with the object. The memory lives as long as any process has it mapped, or its descriptor open.
class SharedArea {
 public:
  // New memory, zeroed; `descriptor` is of the caller, to be handed over and closed. Throws std::system_error.
  static SharedArea* create(std::size_t bytes, int& descriptor);
  // Memory that a peer has made. Throws std::system_error, and std::runtime_error for what is not of that size, or could still shrink.
  static SharedArea* open(int descriptor, std::size_t bytes);

  ~SharedArea();
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  SharedArea(int descriptor, std::size_t bytes);

  void* data_;
  const std::size_t bytes_;
};

}  // namespace zerohop
