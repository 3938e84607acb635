// Requests at given times, whatever becomes of the ones before.
#pragma once

#include <deque>
#include <string>

#include "connection.h"
#include "loop.h"
#include "measurement.h"

inline void openLoop(const Settings& settings, const std::vector<std::string>& requests, Measurement& measurement) {
  constexpr size_t kMostConnections = 1000;
  Loop loop;
  std::deque<Connection> connections;
  std::vector<Connection*> idle;
  std::deque<int64_t> due;  // intended times of what found no connection
  const std::vector<int64_t>& arrivals = settings.arrivalsNs;

  const int64_t start = nowNs();
  const int64_t began = start + static_cast<int64_t>(settings.warmupSeconds * 1e9);
  const int64_t ended = began + static_cast<int64_t>(settings.seconds * 1e9);
  const int64_t giveUp = ended + static_cast<int64_t>(std::max(5.0, settings.seconds) * 1e9);
  size_t next = 0;
  uint64_t sent = 0, waitedFor = 0, answered = 0;
  const auto isMeasured = [&](int64_t intended) { return intended >= began && intended < ended; };
  // Latency counts from when a request was meant to be sent.
  const auto sendDue = [&] {
    while (!due.empty()) {
      if (idle.empty() && connections.size() == kMostConnections) return;
      if (idle.empty()) idle.push_back(&connections.emplace_back(loop.epoll, settings.port));
      Connection& connection = *idle.back();
      idle.pop_back();
      const uint32_t index = sent++ % requests.size();
      connection.send(requests[index], index, due.front());
      due.pop_front();
    }
  };

  bool saidBegin = false, saidMeasured = false;
  for (int64_t now = nowNs(); now < giveUp && (now < ended || waitedFor > 0); now = nowNs()) {
    if (!saidBegin && now >= began) Measurement::say("begin"), saidBegin = true;
    if (!saidMeasured && now >= ended) Measurement::say("measured"), saidMeasured = true;
    for (; next < arrivals.size() && start + arrivals[next] <= now; next++) {
      due.push_back(start + arrivals[next]);
      if (isMeasured(due.back())) waitedFor++;
    }
    sendDue();
    // At the border of the window too: the peer's accounts are read there.
    const int64_t border = now < began ? began : now < ended ? ended : std::min(giveUp, now + 10'000'000);
    loop.wakeAt(next < arrivals.size() ? std::min(border, start + arrivals[next]) : border);
    for (const epoll_event& event : loop.wait()) {
      if (event.data.ptr == nullptr) continue;
      Connection& connection = *static_cast<Connection*>(event.data.ptr);
      const int status = connection.onEvent(event.events);
      if (status == 0) continue;
      const int64_t at = nowNs();
      if (status != 200) measurement.failed();
      if (at >= began && at < ended && status == 200) answered++;
      if (isMeasured(connection.startedNs)) {
        waitedFor--;
        if (status == 200) {
          measurement.latency((at - connection.startedNs) / 1e3);
          measurement.sample(connection.requestIndex, connection.text());
        }
      }
      idle.push_back(&connection);
    }
  }
  if (!saidMeasured) Measurement::say("measured");
  // What never came took this long at least.
  const int64_t now = nowNs();
  for (const Connection& connection : connections) {
    if (connection.isBusy() && isMeasured(connection.startedNs)) measurement.latency((now - connection.startedNs) / 1e3);
  }
  for (const int64_t intended : due) {
    if (isMeasured(intended)) measurement.latency((now - intended) / 1e3);
  }
  measurement.unfinished(waitedFor);
  measurement.end(answered, settings.seconds);
}
