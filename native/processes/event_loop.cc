#ifdef __linux__

#include "event_loop.h"

#include <dlfcn.h>

namespace zerohop {

namespace {

template <typename Function>
bool found(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

// libuv 1: its handles' numbers and sizes are those declared here.
bool fits() {
  unsigned (*version)();
  return found(version, "uv_version") && (version() >> 16) == 1;
}

bool fill(EventLoopApi& api) {
  return fits() && found(api.handleSize, "uv_handle_size") && found(api.pollInit, "uv_poll_init") &&
         found(api.pollStart, "uv_poll_start") && found(api.pollStop, "uv_poll_stop") && found(api.close, "uv_close") &&
         found(api.ref, "uv_ref") && found(api.unref, "uv_unref") && found(api.setData, "uv_handle_set_data") &&
         found(api.getData, "uv_handle_get_data");
}

}  // namespace

const EventLoopApi* EventLoopApi::find() {
  static EventLoopApi api;
  static const bool complete = fill(api);
  return complete ? &api : nullptr;
}

}  // namespace zerohop

#endif
