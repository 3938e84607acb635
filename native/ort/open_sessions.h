// The sessions that are open on one loop, by number.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "session.h"

namespace zerohop::ort {

// For any thread. A session that is let go of is released outside of the lock.
class OpenSessions {
 public:
  void set(std::uint32_t id, std::shared_ptr<Session> session) {
    const std::lock_guard lock(mutex_);
    sessions_[id] = std::move(session);
  }

  // nullptr for one that is not open.
  std::shared_ptr<Session> find(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
  }

  void drop(std::uint32_t id) {
    std::map<std::uint32_t, std::shared_ptr<Session>>::node_type dropped;
    const std::lock_guard lock(mutex_);
    dropped = sessions_.extract(id);
  }

  void clear() {
    std::map<std::uint32_t, std::shared_ptr<Session>> dropped;
    const std::lock_guard lock(mutex_);
    dropped.swap(sessions_);
  }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<Session>> sessions_;
};

}  // namespace zerohop::ort
