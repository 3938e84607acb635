// An open model.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "opening.h"
#include "ort_library.h"
#include "session_options.h"

namespace zerohop::ort {

// What a session says of an input or output.
struct ValueInfo {
  std::string name;
  ValueKind kind = ValueKind::kUnknown;
  ElementType type = ElementType::kUndefined;  // of a tensor
  std::string typeName;                        // of whatever kind; see nameOf
  std::vector<std::int64_t> dims;              // -1 for one that is not fixed
  std::vector<std::string> symbols;            // their names, '' for none
};

// What a session is opened from: a file, or bytes, which only have to live until it is open.
struct ModelSource {
  std::string path;
  const void* bytes = nullptr;
  std::size_t byteLength = 0;
  std::uint64_t bytesId = 0;  // the same for the same bytes
};

class Session {
 public:
  // Throws OrtError, also when `opening` is cancelled meanwhile.
  Session(const OrtLibrary& library, const ModelSource& source, const std::vector<SessionSetting>& settings, Opening& opening);

  const OrtLibrary& library;
  const std::uint64_t id;  // no other of the process has it
  std::vector<ValueInfo> inputs;  // those that a run needs, then the initialisers that it may override
  std::size_t neededInputs = 0;   // how many of them a run needs
  std::vector<ValueInfo> outputs;
  const Entries runEntries;  // config entries of each run
  const bool large;          // what it leaves behind is worth giving back
  const std::string path;    // '' for bytes

  OrtSession* get() const { return session_.get(); }
  // The same model with another number of threads; where there is none, the session itself.
  OrtSession* second() const { return second_ != nullptr ? second_.get() : get(); }

  // What was found out of it, by whoever has it: '' for what is not known.
  std::string note(const std::string& key) {
    const std::lock_guard lock(notesMutex_);
    const auto found = notes_.find(key);
    return found == notes_.end() ? std::string() : found->second;
  }
  void setNote(const std::string& key, const std::string& value) {
    const std::lock_guard lock(notesMutex_);
    notes_[key] = value;
  }

  // Whether an output was found to be another value (an input, a constant), which is not written to where it was asked for.
  bool isAlias(std::size_t output) const { return aliases_[output].load(std::memory_order_relaxed); }
  void markAlias(std::size_t output) { aliases_[output].store(true, std::memory_order_relaxed); }

 private:
  Owned<OrtSession> session_;
  Owned<OrtSession> second_;
  std::unique_ptr<std::atomic<bool>[]> aliases_;
  std::mutex notesMutex_;  // of what follows
  std::map<std::string, std::string> notes_;
};

}  // namespace zerohop::ort
