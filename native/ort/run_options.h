// The run options of one loop: plain ones, and one set for each set of config entries that sessions ask for.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "session.h"

namespace zerohop::ort {

// For any thread. What is told to stop are all runs with these options, those begun later included.
class RunOptions {
 public:
  explicit RunOptions(const OrtLibrary& library) : library_(library), plain_(make({})) {}

  // For a run of a session. Throws OrtError.
  const OrtRunOptions* of(const Session& session) {
    if (session.runEntries.empty()) return plain_.get();
    const std::lock_guard lock(mutex_);
    const auto found = others_.find(session.runEntries);
    if (found != others_.end()) return found->second.get();
    auto made = make(session.runEntries);
    if (stopped_) library_.check(library_.api.RunOptionsSetTerminate(made.get()));
    return others_.emplace(session.runEntries, std::move(made)).first->second.get();
  }

  // Has runs stop, at their next operator. Throws OrtError.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    each(library_.api.RunOptionsSetTerminate);
  }

  // Lets runs begin again. Throws OrtError.
  void goOn() {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
    each(library_.api.RunOptionsUnsetTerminate);
  }

 private:
  Owned<OrtRunOptions> make(const Entries& entries) const {
    auto made = own<OrtRunOptions>(library_, library_.api.ReleaseRunOptions, library_.api.CreateRunOptions);
    for (const auto& [key, value] : entries) library_.check(library_.api.AddRunConfigEntry(made.get(), key.c_str(), value.c_str()));
    return made;
  }

  void each(OrtStatus* (*change)(OrtRunOptions*)) {
    library_.check(change(plain_.get()));
    for (auto& [entries, options] : others_) library_.check(change(options.get()));
  }

  const OrtLibrary& library_;
  const Owned<OrtRunOptions> plain_;
  std::mutex mutex_;
  std::map<Entries, Owned<OrtRunOptions>> others_;
  bool stopped_ = false;
};

}  // namespace zerohop::ort
