// The sessions of the process. Whoever asks for the same model with the same settings gets the same session; the last
// who lets go of it releases it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "session.h"

namespace zerohop::ort {

class SessionTable {
 public:
  // Opens the session, or waits for whoever is opening it. Throws OrtError, also when `opening` is cancelled meanwhile: that
  // of others goes on.
  //
  // `shared` is false where two runs at once are not allowed: the session is the caller's alone.
  std::shared_ptr<Session> open(const OrtLibrary& library, const ModelSource& source,
                                const std::vector<SessionSetting>& settings, bool shared, Opening& opening);

  // Sessions that somebody holds.
  std::size_t size();

 private:
  // One key's session; opened outside of the table's mutex, so that others are opened meanwhile.
  struct Entry {
    std::mutex mutex;  // of what follows
    std::condition_variable opened;
    bool opening = false;
    std::weak_ptr<Session> session;

    bool held();
    void waitForTurn(std::unique_lock<std::mutex>& lock, Opening& own);
    void endTurn();
  };

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

// The process's one table; leaked, as the library is.
SessionTable& processSessions();

}  // namespace zerohop::ort
