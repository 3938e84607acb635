#include "session_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <vector>

namespace zerohop::ort {

namespace {

// A model may have its weights in other files beside it: none of them may have changed either. Of a folder of very many
// files nobody knows.
std::string siblingsOf(const std::filesystem::path& path) {
  static std::atomic<std::uint64_t> unknown{0};
  constexpr std::size_t kMostFiles = 10'000;
  std::error_code error;
  std::vector<std::string> stamps;
  for (std::filesystem::directory_iterator at(path.parent_path(), error), end; !error && at != end; at.increment(error)) {
    if (!at->is_regular_file(error)) continue;
    if (stamps.size() == kMostFiles) return std::to_string(++unknown) + ' ';
    const auto changed = at->last_write_time(error).time_since_epoch().count();
    stamps.push_back(at->path().filename().u8string() + ' ' + std::to_string(at->file_size(error)) + ' ' + std::to_string(changed) + ' ');
  }
  std::sort(stamps.begin(), stamps.end());
  return std::accumulate(stamps.begin(), stamps.end(), std::string());
}

// A file is the same while its place on the disk, its size and its time of change are.
std::string identityOf(const ModelSource& source) {
  if (source.bytes != nullptr) return "bytes " + std::to_string(source.bytesId);
  std::error_code error;
  const auto path = std::filesystem::u8path(source.path);
  // As it was given: weights outside of the file are looked for beside a link, not beside what it leads to.
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  const auto size = std::filesystem::file_size(path, error);
  const auto changed = std::filesystem::last_write_time(path, error);
  std::uint64_t device = 0, node = 0;
#ifndef _WIN32
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    device = static_cast<std::uint64_t>(status.st_dev);
    node = static_cast<std::uint64_t>(status.st_ino);
  }
#endif
  return "file " + siblingsOf(absolute) + absolute.u8string() + ' ' + std::to_string(size) + ' ' +
         std::to_string(changed.time_since_epoch().count()) + ' ' + std::to_string(device) + ' ' + std::to_string(node);
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
