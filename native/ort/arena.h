// The arena of host memory from which a session takes its intermediate values, and which gives nothing back by itself.
#pragma once

#include <cstdint>
#include <optional>

#include "session.h"

namespace zerohop::ort {

struct ArenaStats {
  std::uint64_t totalBytes = 0;  // taken from the system
  std::uint64_t inUseBytes = 0;
  std::uint64_t mostInUseBytes = 0;
};

// Has the arena take its first piece, which it keeps for ever: a small one, and not what a large first run would need. Throws
// OrtError.
void beginArena(const Session& session);

// What the arena holds; nothing for a session without one. Throws OrtError.
std::optional<ArenaStats> arenaStats(const Session& session);

// Gives back to the system what nothing uses, but for the arena's first piece. ONNX Runtime does so only behind a run: one is
// made that is told to stop before its first operator. Throws OrtError when there is nothing to run it on.
void shrinkArena(const Session& session);

}  // namespace zerohop::ort
