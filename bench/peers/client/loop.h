// The event loop: connections, and a timer for what is due.
#pragma once

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <span>
#include <stdexcept>
#include <system_error>

/** A server that fails so often is not measured any further. */
constexpr uint64_t kMostFailures = 1000;

inline int64_t nowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

class Loop {
 public:
  Loop() {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.ptr = nullptr;
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer_, &event);
  }
  ~Loop() {
    close(timer_);
    close(epoll);
  }

  const int epoll = epoll_create1(EPOLL_CLOEXEC);

  void wakeAt(int64_t atNs) {
    itimerspec at{};
    at.it_value = {atNs / 1'000'000'000, atNs % 1'000'000'000};
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &at, nullptr);
  }

  /** Waits until something happens, but for no longer than a minute: a server that says nothing for so long has failed. */
  std::span<const epoll_event> wait() {
    for (;;) {
      const int count = epoll_wait(epoll, events_.data(), events_.size(), 60'000);
      if (count > 0) return {events_.data(), static_cast<size_t>(count)};
      if (count == 0) throw std::runtime_error("the server has not answered for a minute");
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "epoll_wait");
    }
  }

 private:
  const int timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  std::array<epoll_event, 256> events_;
};
