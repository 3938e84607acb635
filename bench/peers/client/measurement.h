// What is counted of the window that is measured, and when it begins and ends.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

struct Settings {
  uint16_t port = 0;
  /** Connections of a closed loop; 0 for an open one. */
  uint32_t callers = 0;
  /** Of an open loop: when requests are meant to be sent, in nanoseconds since the warm-up began. */
  std::vector<int64_t> arrivalsNs;
  double warmupSeconds = 0;
  /** Answers that the warm-up takes at least. */
  uint64_t warmupRequests = 0;
  double seconds = 0;
};

class Measurement {
 public:
  explicit Measurement(std::FILE* samples = nullptr) : samples_(samples) {}

  /** Latencies of what was asked for within the window, in microseconds. */
  void latency(double us) { latenciesUs_.push_back(us); }
  void failed() { failed_++; }
  void unfinished(uint64_t count) { unfinished_ = count; }
  uint64_t failures() const { return failed_; }

  /** Whether an answer is to be kept: ever rarer as they go on, so that they are from all of the window. */
  bool isSample() {
    if (++seen_ < nextSample_) return false;
    nextSample_ = std::max(seen_ + 1, seen_ * 6 / 5);
    return true;
  }

  void sample(uint32_t requestIndex, std::string_view text) {
    if (!isSample()) return;
    const uint32_t head[] = {requestIndex, static_cast<uint32_t>(text.size())};
    std::fwrite(head, sizeof head, 1, samples_);
    std::fwrite(text.data(), 1, text.size(), samples_);
  }

  static void say(const char* event) {
    std::printf("{\"event\":\"%s\"}\n", event);
    std::fflush(stdout);
  }

  /** @param more of the line, from a comma on. */
  void end(uint64_t answered, double seconds, const char* more = "") {
    if (samples_ != nullptr) std::fflush(samples_);
    std::sort(latenciesUs_.begin(), latenciesUs_.end());
    std::printf(
        "{\"event\":\"end\",\"answered\":%llu,\"seconds\":%.6f,\"p50Us\":%.1f,\"p90Us\":%.1f,\"p99Us\":%.1f,\"maxUs\":%.1f,\"failed\":%llu,\"unfinished\":%llu%s}\n",
        static_cast<unsigned long long>(answered), seconds, at(0.5), at(0.9), at(0.99), at(1), static_cast<unsigned long long>(failed_),
        static_cast<unsigned long long>(unfinished_), more);
    std::fflush(stdout);
  }

 private:
  double at(double fraction) const {
    if (latenciesUs_.empty()) return 0;
    const size_t rank = static_cast<size_t>(std::ceil(fraction * latenciesUs_.size()));
    return latenciesUs_[rank == 0 ? 0 : rank - 1];
  }

  std::FILE* samples_;
  std::vector<double> latenciesUs_;
  uint64_t failed_ = 0, unfinished_ = 0, seen_ = 0, nextSample_ = 1;
};
