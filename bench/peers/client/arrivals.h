// When the requests of an open loop are meant to be sent.
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

/** Nanoseconds since the warm-up began, ascending; the file has milliseconds as doubles. */
inline std::vector<int64_t> readArrivalsNs(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<int64_t> arrivalsNs;
  for (double ms; file.read(reinterpret_cast<char*>(&ms), sizeof ms);) arrivalsNs.push_back(static_cast<int64_t>(ms * 1e6));
  if (arrivalsNs.empty()) throw std::runtime_error("no times of requests in " + path);
  return arrivalsNs;
}
