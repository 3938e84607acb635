// Triton in the process of its callers, by its C API: one thread asks, and is told of answers through a queue.
//   in-process REPOSITORY BACKENDS INPUT OUTPUT DIMS FILES LEVELS ...
// with commas between dimensions, files and levels; a level is CALLERS:WARMUP_SECONDS:WARMUP_REQUESTS:SECONDS:ARRIVALS.
#include <triton/core/tritonserver.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "../../client/arrivals.h"
#include "../../client/measurement.h"

namespace {

void check(TRITONSERVER_Error* error) {
  if (error != nullptr) throw std::runtime_error(TRITONSERVER_ErrorMessage(error));
}

/** Answers that come further apart are not of the same batch. */
constexpr int64_t kApartNs = 5'000'000;

int64_t nowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::vector<std::string> parts(const std::string& text, char between) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, between);) found.push_back(part);
  return found;
}

/** A caller, or the place of a request in an open loop; its request is used again. */
struct Slot {
  TRITONSERVER_InferenceRequest* request = nullptr;
  std::vector<char> output;
  size_t outputBytes = 0;
  bool isRight = true;
  int64_t startedNs = 0;
  uint32_t index = 0;
  /** The response has to come, and the request to be given back. */
  int pending = 0;
};

/** What Triton's threads tell the one that asks. */
class Events {
 public:
  void push(Slot* slot) {
    const std::lock_guard lock(mutex_);
    slots_.push_back(slot);
    if (slots_.size() == 1) some_.notify_one();
  }

  std::vector<Slot*> waitUntil(int64_t untilNs) {
    std::unique_lock lock(mutex_);
    some_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(untilNs)), [&] { return !slots_.empty(); });
    return std::exchange(slots_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<Slot*> slots_;
} events;

TRITONSERVER_Error* allocate(TRITONSERVER_ResponseAllocator*, const char*, size_t bytes, TRITONSERVER_MemoryType, int64_t, void* userp, void** buffer, void** bufferUserp, TRITONSERVER_MemoryType* type, int64_t* typeId) {
  Slot& slot = *static_cast<Slot*>(userp);
  slot.output.resize(std::max(bytes, slot.output.size()));
  slot.outputBytes = bytes;
  *buffer = slot.output.data();
  *bufferUserp = nullptr;
  *type = TRITONSERVER_MEMORY_CPU;
  *typeId = 0;
  return nullptr;
}

TRITONSERVER_Error* keep(TRITONSERVER_ResponseAllocator*, void*, void*, size_t, TRITONSERVER_MemoryType, int64_t) { return nullptr; }

void released(TRITONSERVER_InferenceRequest*, const uint32_t, void* userp) { events.push(static_cast<Slot*>(userp)); }

void responded(TRITONSERVER_InferenceResponse* response, const uint32_t, void* userp) {
  Slot* slot = static_cast<Slot*>(userp);
  TRITONSERVER_Error* error = TRITONSERVER_InferenceResponseError(response);
  slot->isRight = error == nullptr;
  if (error != nullptr) std::fprintf(stderr, "%s\n", TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_InferenceResponseDelete(response);
  events.push(slot);
}

class Peer {
 public:
  Peer(const char* repository, const char* backends, std::string input, std::string output, std::vector<int64_t> dims, const std::vector<std::string>& files)
      : input_(std::move(input)), output_(std::move(output)), dims_(std::move(dims)) {
    for (const std::string& path : files) {
      std::ifstream file(path, std::ios::binary);
      bodies_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    TRITONSERVER_ServerOptions* options = nullptr;
    check(TRITONSERVER_ServerOptionsNew(&options));
    check(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository));
    check(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backends));
    check(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
    check(TRITONSERVER_ServerOptionsSetLogWarn(options, false));
    check(TRITONSERVER_ServerOptionsSetMetrics(options, false));
    check(TRITONSERVER_ServerNew(&server_, options));
    check(TRITONSERVER_ResponseAllocatorNew(&allocator_, allocate, keep, nullptr));
  }

  Slot& idleSlot() {
    if (idle_.empty()) {
      Slot& slot = slots_.emplace_back();
      check(TRITONSERVER_InferenceRequestNew(&slot.request, server_, "peer", -1));
      check(TRITONSERVER_InferenceRequestAddInput(slot.request, input_.c_str(), TRITONSERVER_TYPE_FP32, dims_.data(), dims_.size()));
      check(TRITONSERVER_InferenceRequestAddRequestedOutput(slot.request, output_.c_str()));
      check(TRITONSERVER_InferenceRequestSetReleaseCallback(slot.request, released, &slot));
      check(TRITONSERVER_InferenceRequestSetResponseCallback(slot.request, allocator_, &slot, responded, &slot));
      return slot;
    }
    Slot& slot = *idle_.back();
    idle_.pop_back();
    return slot;
  }

  void ask(Slot& slot, int64_t startedNs) {
    slot.index = sent_++ % bodies_.size();
    slot.startedNs = startedNs;
    slot.pending = 2;
    const std::string& body = bodies_[slot.index];
    check(TRITONSERVER_InferenceRequestRemoveAllInputData(slot.request, input_.c_str()));
    check(TRITONSERVER_InferenceRequestAppendInputData(slot.request, input_.c_str(), body.data(), body.size(), TRITONSERVER_MEMORY_CPU, 0));
    check(TRITONSERVER_ServerInferAsync(server_, slot.request, nullptr));
  }

  void giveBack(Slot& slot) { idle_.push_back(&slot); }

 private:
  std::string input_, output_;
  std::vector<int64_t> dims_;
  std::vector<std::string> bodies_;
  TRITONSERVER_Server* server_ = nullptr;
  TRITONSERVER_ResponseAllocator* allocator_ = nullptr;
  std::deque<Slot> slots_;
  std::vector<Slot*> idle_;
  uint64_t sent_ = 0;
};

std::string base64(const char* bytes, size_t count) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < count; at += 3) {
    uint32_t three = 0;
    for (size_t byte = 0; byte < 3; byte++) three = three << 8 | (at + byte < count ? static_cast<unsigned char>(bytes[at + byte]) : 0);
    for (int digit = 3; digit >= 0; digit--) text += at + (3 - digit) > count ? '=' : kDigits[three >> (6 * digit) & 63];
  }
  return text;
}

void hold(Peer& peer, const Settings& settings) {
  Measurement measurement;
  std::string samples;
  const bool closed = settings.callers > 0;
  const int64_t start = nowNs();
  int64_t warm = start + static_cast<int64_t>(settings.warmupSeconds * 1e9);
  const int64_t length = static_cast<int64_t>(settings.seconds * 1e9);
  const std::vector<int64_t>& arrivals = settings.arrivalsNs;
  size_t next = 0;
  enum { kWarmUp, kWindow, kDrain } phase = kWarmUp;
  int64_t began = closed ? 0 : warm, ended = closed ? 0 : warm + length;
  uint64_t answers = 0, answered = 0, busy = 0, unfinished = 0;
  for (uint32_t caller = 0; caller < settings.callers; caller++, busy++) peer.ask(peer.idleSlot(), nowNs());
  while (phase != kDrain || busy > 0) {
    int64_t now = nowNs();
    if (!closed) {
      for (; next < arrivals.size() && start + arrivals[next] <= now; next++, busy++) {
        unfinished += start + arrivals[next] >= began;
        peer.ask(peer.idleSlot(), start + arrivals[next]);
      }
      if (phase == kWarmUp && now >= began) Measurement::say("begin"), phase = kWindow;
      if (phase == kWindow && now >= ended) Measurement::say("measured"), phase = kDrain;
    }
    // At the border of the window too: the peer's accounts are read there.
    const int64_t border = closed || phase == kDrain ? now + 1'000'000'000 : phase == kWarmUp ? began : ended;
    for (Slot* slot : events.waitUntil(next < arrivals.size() ? std::min(border, start + arrivals[next]) : border)) {
      if (--slot->pending > 0) continue;
      now = nowNs();
      if (++answers == settings.warmupRequests) warm = std::max(warm, now + kApartNs);
      const bool isMeasured = closed ? phase == kWindow : slot->startedNs >= began;
      if (!slot->isRight) measurement.failed();
      else if (closed ? isMeasured : now >= began && now < ended) answered++;
      if (isMeasured) {
        unfinished -= !closed;
        measurement.latency((now - slot->startedNs) / 1e3);
        if (slot->isRight && measurement.isSample())
          samples += (samples.empty() ? "" : ",") + ("{\"index\":" + std::to_string(slot->index)) + ",\"values\":\"" + base64(slot->output.data(), slot->outputBytes) + "\"}";
      }
      // From one first answer to another: a slow model's whole batches are counted over the time that they took.
      if (closed && phase == kWarmUp && now >= warm && answers >= settings.warmupRequests) Measurement::say("begin"), phase = kWindow, began = now;
      else if (closed && phase == kWindow && now - began >= length) Measurement::say("measured"), phase = kDrain, ended = now;
      if (closed && phase != kDrain) peer.ask(*slot, now);
      else busy--, peer.giveBack(*slot);
    }
  }
  measurement.unfinished(unfinished);
  measurement.end(answered, (ended - began) / 1e9, (",\"samples\":[" + samples + "]").c_str());
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 8) throw std::runtime_error("7 arguments are expected");
  std::vector<int64_t> dims{1};
  for (const std::string& dim : parts(arguments[5], ',')) dims.push_back(std::stoll(dim));
  Peer peer(arguments[1], arguments[2], arguments[3], arguments[4], dims, parts(arguments[6], ','));
  for (const std::string& level : parts(arguments[7], ',')) {
    const std::vector<std::string> fields = parts(level, ':');
    Settings settings;
    settings.callers = static_cast<uint32_t>(std::stoul(fields.at(0)));
    settings.warmupSeconds = std::stod(fields.at(1));
    settings.warmupRequests = std::stoull(fields.at(2));
    settings.seconds = std::stod(fields.at(3));
    if (settings.callers == 0) settings.arrivalsNs = readArrivalsNs(fields.at(4));
    hold(peer, settings);
  }
  std::fflush(stdout);
  _exit(0);  // requests are never given up, and what Triton ends in order is not measured
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
