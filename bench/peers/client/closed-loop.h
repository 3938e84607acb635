// Callers that each wait for their answer before they ask again.
#pragma once

#include <deque>
#include <string>

#include "connection.h"
#include "loop.h"
#include "measurement.h"

/** Answers that come further apart are not of the same batch. */
constexpr int64_t kApartNs = 5'000'000;

inline void closedLoop(const Settings& settings, const std::vector<std::string>& requests, Measurement& measurement) {
  Loop loop;
  std::deque<Connection> connections;
  uint64_t sent = 0;
  const auto ask = [&](Connection& connection, int64_t now) {
    const uint32_t index = sent++ % requests.size();
    connection.send(requests[index], index, now);
  };
  int64_t warmUntil = nowNs() + static_cast<int64_t>(settings.warmupSeconds * 1e9);
  for (uint32_t caller = 0; caller < settings.callers; caller++) ask(connections.emplace_back(loop.epoll, settings.port), nowNs());

  enum { kWarmUp, kWindow, kDrain } phase = kWarmUp;
  uint64_t answers = 0, answered = 0, busy = settings.callers;
  int64_t began = 0, ended = 0;
  while (busy > 0) {
    for (const epoll_event& event : loop.wait()) {
      Connection& connection = *static_cast<Connection*>(event.data.ptr);
      const int status = connection.onEvent(event.events);
      if (status == 0) continue;
      const int64_t now = nowNs();
      if (++answers == settings.warmupRequests) warmUntil = std::max(warmUntil, now + kApartNs);
      if (status != 200) measurement.failed();
      else if (phase == kWindow) {
        answered++;
        measurement.latency((now - connection.startedNs) / 1e3);
        measurement.sample(connection.requestIndex, connection.text());
      }
      // From one first answer to another: a slow model's whole batches are counted over the time that they took.
      if (phase == kWarmUp && now >= warmUntil && answers >= settings.warmupRequests) {
        phase = kWindow;
        began = now;
        Measurement::say("begin");
      } else if (phase == kWindow && now - began >= static_cast<int64_t>(settings.seconds * 1e9)) {
        phase = kDrain;
        ended = now;
        Measurement::say("measured");
      }
      if (phase == kDrain || measurement.failures() > kMostFailures) busy--;
      else ask(connection, now);
    }
  }
  measurement.end(answered, (ended - began) / 1e9);
}
