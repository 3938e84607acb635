// One connection that is kept: a request at a time.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "response.h"

class Connection {
 public:
  Connection(int epoll, uint16_t port) : epoll_(epoll), port_(port) { open(); }
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool isBusy() const { return !request_.empty(); }
  /** When the answer was begun to be waited for, and which request it is to. */
  int64_t startedNs = 0;
  uint32_t requestIndex = 0;
  /** The last response, headers and body, until the next request. */
  std::string_view text() const { return {in_.data(), responseLength_}; }

  void send(std::string_view request, uint32_t index, int64_t nowNs) {
    request_ = request;
    requestIndex = index;
    startedNs = nowNs;
    sent_ = 0;
    in_.clear();
    write();
  }

  /** What epoll told; the status of the response when it is whole, -1 when the connection broke under a request, else 0. */
  int onEvent(uint32_t events) {
    if ((events & EPOLLOUT) && isBusy()) write();
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return 0;
    for (;;) {
      const size_t had = in_.size();
      in_.resize(had + kReadBytes);
      const ssize_t got = recv(fd_, in_.data() + had, kReadBytes, MSG_DONTWAIT);
      in_.resize(had + (got > 0 ? got : 0));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
      if (got <= 0) return broken();
      if (const auto response = wholeResponse(in_)) {
        responseLength_ = response->length;
        const bool ends = header(std::string_view(in_).substr(0, in_.find("\r\n\r\n") + 2), "connection") == "close";
        request_ = {};
        if (ends) reopen();
        return response->status;
      }
    }
  }

 private:
  static constexpr size_t kReadBytes = 16384;

  void open() {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) throw std::system_error(errno, std::generic_category(), "connect");
    const int yes = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.ptr = this;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd_, &event) != 0) throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }

  void reopen() {
    close(fd_);
    open();
  }

  /** An idle connection that a server gives up is no failure. */
  int broken() {
    const bool wasBusy = isBusy();
    request_ = {};
    reopen();
    return wasBusy ? -1 : 0;
  }

  // Edge-triggered: whatever is left goes out at the next event.
  void write() {
    while (sent_ < request_.size()) {
      const ssize_t put = ::send(fd_, request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return;  // full, or broken, which reading tells
      sent_ += put;
    }
  }

  int epoll_;
  uint16_t port_;
  int fd_ = -1;
  std::string_view request_;
  size_t sent_ = 0;
  std::string in_;
  size_t responseLength_ = 0;
};
