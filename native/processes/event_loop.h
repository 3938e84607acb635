// The part of libuv that Node itself exports and that watching a descriptor takes. Found at run time: an addon of plain Node-API has
// neither its headers nor its library.
#pragma once

#include <cstddef>

struct uv_loop_s;

namespace zerohop {

struct EventLoopApi {
  using Readable = void (*)(void* handle, int status, int events);
  using Closed = void (*)(void* handle);

  std::size_t (*handleSize)(int type);
  int (*pollInit)(uv_loop_s* loop, void* handle, int descriptor);
  int (*pollStart)(void* handle, int events, Readable readable);
  int (*pollStop)(void* handle);
  void (*close)(void* handle, Closed closed);
  void (*ref)(void* handle);
  void (*unref)(void* handle);
  void (*setData)(void* handle, void* data);
  void* (*getData)(const void* handle);

  // nullptr where this runtime does not export it.
  static const EventLoopApi* find();

  // Of libuv's interface, which keeps them within a major version.
  static constexpr int kPollType = 8;
  static constexpr int kReadable = 1;
};

}  // namespace zerohop
