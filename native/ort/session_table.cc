#include "session_table.h"

#include <chrono>

#include "model_file.h"

namespace zerohop::ort {

namespace {

std::string identityOf(const ModelSource& source) {
  return source.bytes != nullptr ? "bytes " + std::to_string(source.bytesId) : "file " + identityOfFile(source.path);
}

}  // namespace

bool SessionTable::Entry::held() {
  const std::lock_guard lock(mutex);
  return !session.expired();
}

// Until nobody opens it. In steps: nobody tells who waits here that its own opening was cancelled.
void SessionTable::Entry::waitForTurn(std::unique_lock<std::mutex>& lock, Opening& own) {
  while (opening) {
    if (own.cancelled()) throw OrtError(Opening::kCancelled);
    opened.wait_for(lock, std::chrono::milliseconds(10));
  }
}

void SessionTable::Entry::endTurn() {
  {
    const std::lock_guard lock(mutex);
    opening = false;
  }
  opened.notify_all();
}

std::shared_ptr<Session> SessionTable::open(const OrtLibrary& library, const ModelSource& source,
                                            const std::vector<SessionSetting>& settings, bool shared, Opening& opening) {
  if (!shared) return std::make_shared<Session>(library, source, settings, opening);
  std::shared_ptr<Entry> entry;
  const std::string key = identityOf(source) + '\n' + keyOf(settings);  // a slow disk holds up nobody else
  {
    const std::lock_guard lock(mutex_);
    // Those whose session is gone and that nobody is about to open again.
    for (auto at = entries_.begin(); at != entries_.end();) {
      at = at->second.use_count() == 1 && !at->second->held() ? entries_.erase(at) : std::next(at);
    }
    auto& found = entries_[key];
    if (found == nullptr) found = std::make_shared<Entry>();
    entry = found;
  }
  {
    std::unique_lock lock(entry->mutex);
    entry->waitForTurn(lock, opening);
    if (auto session = entry->session.lock()) return session;
    entry->opening = true;
  }
  try {
    auto session = std::make_shared<Session>(library, source, settings, opening);
    {
      const std::lock_guard lock(entry->mutex);
      entry->session = session;
    }
    entry->endTurn();
    return session;
  } catch (...) {
    entry->endTurn();
    throw;
  }
}

std::size_t SessionTable::size() {
  const std::lock_guard lock(mutex_);
  std::size_t held = 0;
  for (const auto& [key, entry] : entries_) held += entry->held() ? 1 : 0;
  return held;
}

SessionTable& processSessions() {
  static SessionTable& table = *new SessionTable;
  return table;
}

}  // namespace zerohop::ort
