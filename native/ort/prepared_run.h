// A batch's way through a session: the values over its slot, made once for each layout and kept.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session.h"
#include "value_copy.h"

namespace zerohop::ort {

// Where an input or output of a batch is.
struct Place {
  enum class Kind {
    kAbsent,   // an input that is not given, an output that nobody wants
    kApart,    // an input that comes beside the slot, an output whose size only the run knows
    kInSlot,
  };
  Kind kind = Kind::kAbsent;
  std::size_t offset = 0;
  std::vector<std::int64_t> dims;
};

// Memory that stays as long as somebody holds it.
using SharedBytes = std::shared_ptr<std::byte>;

// The memory of a slot.
struct SlotBytes {
  SharedBytes bytes;
  std::size_t length = 0;
};

class PreparedRun {
 public:
  // Indices of `inputs` and `outputs` are those of the session. Throws OrtError, also for a place that is not in the slot.
  PreparedRun(std::shared_ptr<Session> session, SlotBytes slot, std::vector<Place> inputs, std::vector<Place> outputs);
  PreparedRun(const PreparedRun&) = delete;  // its outputs point into it

  // Runs the batch that lies in the slot; `apart` are the inputs that do not, by input. Throws OrtError. No bytes of the
  // slot are given as an output but those that this run has written. Used by one thread at a time. With
  // `onSecond` it has the threads of the second session.
  //
  // Returns what does not lie in the slot; empty when all does.
  ValueCopies run(const OrtRunOptions* options, ValueCopies& apart, bool onSecond = false);

  const Session& session() const { return *session_; }

  // The halves of its rows, each a run of its own in the same slot, so that two threads may run them at once. nullptr where something
  // does not lie in the slot by rows, the first dimension, or has only one. Throws OrtError.
  using Halves = std::array<std::unique_ptr<PreparedRun>, 2>;
  const Halves* halves();
  // From now on there are none.
  void keepWhole() { mayBeHalved_ = false; }

 private:
  struct Output {
    std::size_t index;
    std::byte* bytes;  // nullptr when it has no place
    std::size_t byteLength;
    const std::vector<std::int64_t>* dims;  // among outputPlaces_
    Owned<OrtValue> value;                  // over the place

    std::byte* markAt() const { return bytes + byteLength - sizeof(std::uint64_t); }
  };

  std::byte* placeOf(const Place& place, const ValueInfo& info) const;
  std::int64_t rowsInSlot() const;
  std::vector<Owned<OrtValue>> bring(ValueCopies& apart);
  bool lend(bool places, std::uint64_t mark);
  bool findAliases(std::uint64_t mark);
  std::vector<Owned<OrtValue>> takeGiven();
  ValueCopies collect(const std::vector<Owned<OrtValue>>& given);

  std::shared_ptr<Session> session_;
  const SlotBytes slot_;
  const std::vector<Place> inputPlaces_;
  const std::vector<Place> outputPlaces_;
  Halves halves_;  // made when they are asked for
  bool mayBeHalved_ = true;
  std::vector<const char*> inputNames_;
  std::vector<std::size_t> inputIndices_;
  std::vector<Owned<OrtValue>> inputs_;  // nullptr for those that come beside the slot
  std::vector<const char*> outputNames_;
  std::vector<Output> outputs_;
  bool fits_ = true;  // whether outputs had the sizes of their places so far
  // Of the run at hand, kept for their memory.
  std::vector<const OrtValue*> feeds_;
  std::vector<OrtValue*> results_;
};

}  // namespace zerohop::ort
