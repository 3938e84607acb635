#ifdef __linux__

#include "unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace zerohop {

namespace {

constexpr std::size_t kMostDescriptors = 4;

[[noreturn]] void failSocket(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

int connectTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) throw std::runtime_error("a socket's path has 1 to 107 bytes");
  std::memcpy(address.sun_path, path.data(), path.size());
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made == -1) failSocket("socket");
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == -1) {
    const int why = errno;
    close(made);
    errno = why;
    failSocket("connect");
  }
  return made;
}

std::pair<int, int> socketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == -1) failSocket("socketpair");
  return {ends[0], ends[1]};
}

Peer peerOf(int socket) {
  ucred found{};
  socklen_t length = sizeof found;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &length) == -1) failSocket("getsockopt(SO_PEERCRED)");
  return {found.pid, found.uid};
}

void sendAll(int socket, const void* bytes, std::size_t length, const std::vector<int>& descriptors) {
  if (descriptors.size() > kMostDescriptors) throw std::runtime_error("too many descriptors");
  iovec part{const_cast<void*>(bytes), length};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  if (!descriptors.empty()) {
    const std::size_t size = sizeof(int) * descriptors.size();
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }
  const ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == -1) failSocket("sendmsg");
  if (static_cast<std::size_t>(sent) != length) throw std::runtime_error("a greeting was sent in part only");
}

Received receive(int socket, void* into, std::size_t room) {
  iovec part{into, room};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t length = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (length == -1 && (errno == EAGAIN || errno == EINTR)) return {-1, {}};
  if (length == -1) failSocket("recvmsg");
  Received received{length, {}};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const std::size_t before = received.descriptors.size();
    received.descriptors.resize(before + count);
    std::memcpy(received.descriptors.data() + before, CMSG_DATA(header), count * sizeof(int));
  }
  return received;
}

// Never waits, whatever flags the peer has set on what it shares: the call itself says so.
void ring(int socket) { static_cast<void>(send(socket, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL)); }

bool silence(int socket) {
  char rings[256];
  const ssize_t length = recv(socket, rings, sizeof rings, MSG_DONTWAIT);
  return length > 0 || (length == -1 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace zerohop

#endif
