// A load generator for HTTP/1.1 servers of this machine: connections that are kept, closed or open loop.
//   client PORT REQUESTS SAMPLES CALLERS WARMUP_SECONDS WARMUP_REQUESTS SECONDS [ARRIVALS]
// REQUESTS holds whole requests, each after its length (uint32), which are sent in turn; to SAMPLES go responses, each after the
// index of its request and its length. ARRIVALS are the times of an open loop, whose CALLERS are 0. Lines of JSON tell when the window begins, when it is over, and what was found.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "arrivals.h"
#include "closed-loop.h"
#include "open-loop.h"

namespace {

std::vector<std::string> readRequests(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> requests;
  for (size_t at = 0; at + sizeof(uint32_t) <= all.size();) {
    uint32_t length;
    std::memcpy(&length, all.data() + at, sizeof length);
    requests.push_back(all.substr(at + sizeof length, length));
    at += sizeof length + length;
  }
  if (requests.empty()) throw std::runtime_error(std::string("no requests in ") + path);
  return requests;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 8 || count > 9) throw std::runtime_error("7 or 8 arguments are expected");
  Settings settings;
  settings.port = static_cast<uint16_t>(std::atoi(arguments[1]));
  const std::vector<std::string> requests = readRequests(arguments[2]);
  std::FILE* samples = std::fopen(arguments[3], "wb");
  if (samples == nullptr) throw std::runtime_error(std::string("cannot write ") + arguments[3]);
  settings.callers = static_cast<uint32_t>(std::atoi(arguments[4]));
  settings.warmupSeconds = std::atof(arguments[5]);
  settings.warmupRequests = static_cast<uint64_t>(std::atoll(arguments[6]));
  settings.seconds = std::atof(arguments[7]);
  if (settings.callers == 0) settings.arrivalsNs = readArrivalsNs(count == 9 ? arguments[8] : "");

  Measurement measurement(samples);
  if (settings.callers > 0) closedLoop(settings, requests, measurement);
  else openLoop(settings, requests, measurement);
  std::fclose(samples);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
