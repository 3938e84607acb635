#include "prepared_run.h"

#include <cstring>

namespace zerohop::ort {

namespace {

// What is put at the end of an output's place before a run: another one each time, so that what a run leaves there
// tells whether it has written to it.
std::uint64_t nextMark() {
  thread_local std::uint64_t state = 0x9e3779b97f4a7c15;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

}  // namespace

PreparedRun::PreparedRun(std::shared_ptr<Session> session, SharedBytes slot, std::vector<Place> inputs,
                         std::vector<Place> outputs)
    : session_(std::move(session)), slot_(std::move(slot)) {
  const OrtLibrary& library = session_->library;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const auto& [kind, offset, dims] = inputs[index];
    if (kind == Place::Kind::kAbsent) continue;
    const ValueInfo& info = session_->inputs.at(index);
    inputNames_.push_back(info.name.c_str());
    inputIndices_.push_back(index);
    inputs_.push_back(kind == Place::Kind::kInSlot ? valueOver(library, slot_.get() + offset, info.type, dims)
                                                   : Owned<OrtValue>(nullptr, library.api.ReleaseValue));
  }
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    auto& [kind, offset, dims] = outputs[index];
    if (kind == Place::Kind::kAbsent) continue;
    const ValueInfo& info = session_->outputs.at(index);
    outputNames_.push_back(info.name.c_str());
    Output output{index, nullptr, 0, {}, Owned<OrtValue>(nullptr, library.api.ReleaseValue)};
    if (kind == Place::Kind::kInSlot) {
      output.bytes = slot_.get() + offset;
      output.byteLength = byteLengthOf(info.type, elementCount(dims));
      output.dims = std::move(dims);
      output.value = valueOver(library, output.bytes, info.type, output.dims);
    }
    outputs_.push_back(std::move(output));
  }
}

OutputCopies PreparedRun::run(const OrtRunOptions* options, std::vector<std::optional<TensorCopy>>& apart) {
  const OrtLibrary& library = session_->library;
  const std::vector<Owned<OrtValue>> brought = bring(apart);
  bool places = fits_;
  for (;;) {
    const std::uint64_t mark = nextMark();
    const bool lent = lend(places, mark);
    OrtStatus* status = library.api.Run(session_->get(), options, inputNames_.data(), feeds_.data(), feeds_.size(),
                                        outputNames_.data(), outputs_.size(), results_.data());
    const std::vector<Owned<OrtValue>> given = takeGiven();
    if (status != nullptr && lent) {
      // An output of another size than its place is refused with an error: whether it is that shows without places.
      library.api.ReleaseStatus(status);
      places = false;
      continue;
    }
    library.check(status);
    if (findAliases(mark)) continue;
    fits_ = places;
    return collect(given);
  }
}

// Values of the inputs that come beside the slot, put among the feeds.
std::vector<Owned<OrtValue>> PreparedRun::bring(std::vector<std::optional<TensorCopy>>& apart) {
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
    if (!places || output.bytes == nullptr || session_->isAlias(output.index)) continue;
    results_[at] = output.value.get();
    std::memcpy(output.markAt(), &mark, output.markBytes());
    any = true;
  }
  return any;
}

// An output that is an input, a constant or another output may not be written to its place: the mark is still there.
bool PreparedRun::findAliases(std::uint64_t mark) {
  bool found = false;
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    Output& output = outputs_[at];
    if (results_[at] == nullptr || output.byteLength == 0) continue;
    if (std::memcmp(output.markAt(), &mark, output.markBytes()) != 0) continue;
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

OutputCopies PreparedRun::collect(const std::vector<Owned<OrtValue>>& given) {
  const OrtLibrary& library = session_->library;
  OutputCopies copies;
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    const Output& output = outputs_[at];
    if (results_[at] != nullptr) continue;
    const ValueInfo& info = session_->outputs[output.index];
    if (given[at] == nullptr) throw OrtError("ONNX Runtime gave nothing for output '" + info.name + "'");
    const TensorView view = viewOf(library, given[at].get());
    if (view.type != info.type) throw OrtError("ONNX Runtime gave another type for output '" + info.name + "' than it declares");
    if (output.bytes != nullptr && view.dims == output.dims) {
      if (output.byteLength > 0) std::memcpy(output.bytes, view.bytes, output.byteLength);
      continue;
    }
    copies.resize(session_->outputs.size());
    copies[output.index] = copyOf(library, given[at].get(), view);
  }
  return copies;
}

}  // namespace zerohop::ort
