#include "prepared_run.h"

#include <cstring>
#include <string_view>

#include "heap.h"

namespace zerohop::ort {

namespace {

// ONNX Runtime's words for an output of another size than its place.
bool tellsOfSize(std::string_view message) {
  for (const std::string_view words : {"shape verification failed", "OrtValue provided for output", "invalid dimensions for output",
                                       "invalid rank for output", "Invalid rank for output", "Invalid dimensions for output"}) {
    if (message.find(words) != std::string_view::npos) return true;
  }
  return false;
}

// Its words where there is no memory: for a buffer of an arena, or from the C++ library.
bool tellsOfMemory(std::string_view message) {
  return message.find("allocate memory") != std::string_view::npos || message.find("bad_alloc") != std::string_view::npos;
}

// Where the first or the second half of the rows lies of what lies at `places`. The first is the larger one.
std::vector<Place> halfOf(std::vector<Place> places, const std::vector<ValueInfo>& infos, bool isSecond) {
  for (std::size_t index = 0; index < places.size(); ++index) {
    auto& [kind, offset, dims] = places[index];
    if (kind == Place::Kind::kAbsent) continue;
    const std::int64_t rows = dims[0];
    const std::int64_t first = (rows + 1) / 2;
    dims[0] = first;
    if (!isSecond) continue;
    offset += byteLengthOf(infos[index].type, elementCount(dims));
    dims[0] = rows - first;
  }
  return places;
}

// What is put at the end of an output's place before a run: another one each time, so that what a run leaves there
// tells whether it has written to it. Shorter outputs get no place: by chance one would leave the same there.
std::uint64_t nextMark() {
  thread_local std::uint64_t state = 0x9e3779b97f4a7c15;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

}  // namespace

PreparedRun::PreparedRun(std::shared_ptr<Session> session, SlotBytes slot, std::vector<Place> inputs,
                         std::vector<Place> outputs)
    : session_(std::move(session)), slot_(std::move(slot)), inputPlaces_(std::move(inputs)), outputPlaces_(std::move(outputs)) {
  const OrtLibrary& library = session_->library;
  // A file that has changed may have been opened again for what was laid out for the one before.
  if (inputPlaces_.size() > session_->inputs.size() || outputPlaces_.size() > session_->outputs.size()) {
    throw OrtError("the model has other inputs or outputs than when it was loaded");
  }
  for (std::size_t index = 0; index < inputPlaces_.size(); ++index) {
    const auto& [kind, offset, dims] = inputPlaces_[index];
    if (kind == Place::Kind::kAbsent) continue;
    const ValueInfo& info = session_->inputs[index];
    inputNames_.push_back(info.name.c_str());
    inputIndices_.push_back(index);
    inputs_.push_back(kind == Place::Kind::kInSlot ? valueOver(library, placeOf(inputPlaces_[index], info), info.type, dims)
                                                   : Owned<OrtValue>(nullptr, library.api.ReleaseValue));
  }
  for (std::size_t index = 0; index < outputPlaces_.size(); ++index) {
    const auto& [kind, offset, dims] = outputPlaces_[index];
    if (kind == Place::Kind::kAbsent) continue;
    const ValueInfo& info = session_->outputs[index];
    outputNames_.push_back(info.name.c_str());
    Output output{index, nullptr, 0, &dims, Owned<OrtValue>(nullptr, library.api.ReleaseValue)};
    if (kind == Place::Kind::kInSlot) {
      output.bytes = placeOf(outputPlaces_[index], info);
      output.byteLength = byteLengthOf(info.type, elementCount(dims));
      // Each request gets a copy of its own rows, mostly one. Too little for outputs whose first dimension does not count rows.
      if (!dims.empty() && dims[0] > 0) keepFreedMemoryFor(output.byteLength / static_cast<std::size_t>(dims[0]));
      output.value = valueOver(library, output.bytes, info.type, dims);
    }
    outputs_.push_back(std::move(output));
  }
}

// Where an input or output lies in the slot.
std::byte* PreparedRun::placeOf(const Place& place, const ValueInfo& info) const {
  const std::size_t byteLength = byteLengthOf(info.type, elementCount(place.dims));
  if (place.offset > slot_.length || byteLength > slot_.length - place.offset) {
    throw OrtError("'" + info.name + "' does not lie in its slot: the model has another type of it than when it was loaded");
  }
  return slot_.bytes.get() + place.offset;
}

const PreparedRun::Halves* PreparedRun::halves() {
  if (mayBeHalved_ && halves_[0] == nullptr) {
    mayBeHalved_ = rowsInSlot() > 1;
    if (!mayBeHalved_) return nullptr;
    const auto half = [&](bool isSecond) {
      return std::make_unique<PreparedRun>(session_, slot_, halfOf(inputPlaces_, session_->inputs, isSecond),
                                           halfOf(outputPlaces_, session_->outputs, isSecond));
    };
    halves_ = Halves{half(false), half(true)};  // both or, where there is no memory, none
  }
  return mayBeHalved_ ? &halves_ : nullptr;
}

// The first dimension of all that there is; 0 where something does not lie in the slot, or has another one.
std::int64_t PreparedRun::rowsInSlot() const {
  std::int64_t rows = -1;
  for (const auto* places : {&inputPlaces_, &outputPlaces_}) {
    for (const auto& [kind, offset, dims] : *places) {
      if (kind == Place::Kind::kAbsent) continue;
      if (kind == Place::Kind::kApart || dims.empty() || (rows >= 0 && dims[0] != rows)) return 0;
      rows = dims[0];
    }
  }
  return rows;
}

ValueCopies PreparedRun::run(const OrtRunOptions* options, ValueCopies& apart, bool onSecond) {
  const OrtLibrary& library = session_->library;
  const std::vector<Owned<OrtValue>> brought = bring(apart);
  bool places = fits_;
  for (;;) {
    const std::uint64_t mark = nextMark();
    const bool lent = lend(places, mark);
    OrtStatus* status = library.api.Run(onSecond ? session_->second() : session_->get(), options, inputNames_.data(), feeds_.data(),
                                        feeds_.size(), outputNames_.data(), outputs_.size(), results_.data());
    const std::vector<Owned<OrtValue>> given = takeGiven();
    if (status != nullptr && lent && tellsOfSize(library.api.GetErrorMessage(status))) {
      library.api.ReleaseStatus(status);
      places = false;
      continue;
    }
    if (status != nullptr && onSecond && tellsOfMemory(library.api.GetErrorMessage(status))) {
      library.api.ReleaseStatus(status);  // the second arena may get none where the first has some
      onSecond = false;
      continue;
    }
    library.check(status);
    if (findAliases(mark)) continue;
    fits_ = places;
    return collect(given);
  }
}

// Values of the inputs that come beside the slot, put among the feeds.
std::vector<Owned<OrtValue>> PreparedRun::bring(ValueCopies& apart) {
  std::vector<Owned<OrtValue>> brought;
  feeds_.resize(inputs_.size());
  for (std::size_t at = 0; at < inputs_.size(); ++at) {
    feeds_[at] = inputs_[at].get();
    if (feeds_[at] != nullptr) continue;
    const std::size_t index = inputIndices_[at];
    if (index >= apart.size() || !apart[index]) throw OrtError("input '" + session_->inputs[index].name + "' has not come");
    brought.push_back(valueOver(session_->library, *apart[index]));
    feeds_[at] = brought.back().get();
  }
  return brought;
}

// Has ONNX Runtime write outputs to their places; false when it is to give all as values of its own.
bool PreparedRun::lend(bool places, std::uint64_t mark) {
  bool any = false;
  results_.assign(outputs_.size(), nullptr);
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    Output& output = outputs_[at];
    if (!places || output.byteLength < sizeof(mark) || session_->isAlias(output.index)) continue;
    results_[at] = output.value.get();
    std::memcpy(output.markAt(), &mark, sizeof(mark));
    any = true;
  }
  return any;
}

// An output that is an input, a constant or another output may not be written to its place: the mark is still there.
bool PreparedRun::findAliases(std::uint64_t mark) {
  bool found = false;
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    Output& output = outputs_[at];
    if (results_[at] == nullptr || std::memcmp(output.markAt(), &mark, sizeof(mark)) != 0) continue;
    session_->markAlias(output.index);
    found = true;
  }
  return found;
}

// Takes over what ONNX Runtime made, and leaves among the results what is ours.
std::vector<Owned<OrtValue>> PreparedRun::takeGiven() {
  std::vector<Owned<OrtValue>> given;
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    const bool ours = results_[at] != nullptr && results_[at] == outputs_[at].value.get();
    given.emplace_back(ours ? nullptr : results_[at], session_->library.api.ReleaseValue);
    if (!ours) results_[at] = nullptr;
  }
  return given;
}

ValueCopies PreparedRun::collect(const std::vector<Owned<OrtValue>>& given) {
  const OrtLibrary& library = session_->library;
  ValueCopies copies;
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    const Output& output = outputs_[at];
    if (results_[at] != nullptr) continue;
    const ValueInfo& info = session_->outputs[output.index];
    if (given[at] == nullptr) throw OrtError("ONNX Runtime gave nothing for output '" + info.name + "'");
    if (info.kind != ValueKind::kTensor) {
      copies.resize(session_->outputs.size());
      copies[output.index] = copyOf(library, given[at].get());
      continue;
    }
    const TensorView view = viewOf(library, given[at].get());
    if (view.type != info.type) throw OrtError("ONNX Runtime gave another type for output '" + info.name + "' than it declares");
    if (output.bytes != nullptr && view.dims == *output.dims) {
      if (output.byteLength > 0) std::memcpy(output.bytes, view.bytes, output.byteLength);
      continue;
    }
    copies.resize(session_->outputs.size());
    copies[output.index].emplace().tensor = copyOf(library, given[at].get(), view);
  }
  return copies;
}

}  // namespace zerohop::ort
