// How many threads are inside ONNX Runtime, or about to end, and what that means for the end of the process.
#pragma once

#include <atomic>

namespace zerohop::ort {

extern std::atomic<int> threadsUnderWay;

// Held while a thread is inside ONNX Runtime.
class InsideRuntime {
 public:
  InsideRuntime() { ++threadsUnderWay; }
  ~InsideRuntime() { --threadsUnderWay; }
};

// From now on a process that ends while a thread is still inside ONNX Runtime ends at once, with its exit code: the
// library must not be taken down beneath that thread. To be said again shortly before the end: what the library has made
// since it was opened is taken down before what was registered at its opening.
void leaveWithRunning();

}  // namespace zerohop::ort
