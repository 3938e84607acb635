// What Node's own sockets cannot do: hand descriptors over, and tell who the peer is. All calls return at once.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace zerohop {

// A connected socket. Throws std::system_error; ENOENT and ECONNREFUSED where nobody listens, EAGAIN where the listener's queue is full.
int connectTo(const std::string& path);

// Two sockets that are connected with each other.
std::pair<int, int> socketPair();

struct Peer {
  pid_t process;
  uid_t user;
};

// Who had the other end when it was connected.
Peer peerOf(int socket);

// Sends all the bytes, and descriptors with the first of them. Throws std::system_error, also where there is no room for all.
void sendAll(int socket, const void* bytes, std::size_t length, const std::vector<int>& descriptors);

// What was received; of the length 0 at the end of the stream, -1 where nothing has come yet.
struct Received {
  ssize_t length;
  std::vector<int> descriptors;  // the caller's, to be closed
};
Received receive(int socket, void* into, std::size_t room);

// Makes the other end readable; nothing where it is already, or gone.
void ring(int socket);

// Takes what rings have left; false when the other end is closed.
bool silence(int socket);

}  // namespace zerohop
