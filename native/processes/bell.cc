#ifdef __linux__

#include "bell.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "../arguments.h"
#include "event_loop.h"
#include "owned_descriptors.h"
#include "unix_socket.h"

namespace zerohop {

namespace {

// What the loop holds. It outlives the JavaScript object until the loop has let go of it.
struct Watched {
  const EventLoopApi* api;
  void* handle;
  int descriptor;
  bool onlyWatches;
  napi_env env;
  napi_ref onRing = nullptr;
  napi_async_context context = nullptr;
  napi_async_cleanup_hook_handle hook = nullptr;
  bool ends = false;
};

void freeWatched(void* handle) {
  auto* watched = static_cast<Watched*>(EventLoopApi::find()->getData(handle));
  if (!watched->onlyWatches) close(watched->descriptor);
  std::free(handle);
  // Once this is said the environment may be gone.
  if (watched->hook != nullptr) napi_remove_async_cleanup_hook(watched->hook);
  delete watched;
}

void endWatched(Watched& watched) {
  if (std::exchange(watched.ends, true)) return;
  if (watched.onRing != nullptr) napi_delete_reference(watched.env, watched.onRing);
  if (watched.context != nullptr) napi_async_destroy(watched.env, watched.context);
  watched.api->pollStop(watched.handle);
  watched.api->close(watched.handle, freeWatched);
}

void callBack(Watched& watched) {
  const napi_env env = watched.env;
  napi_handle_scope scope;
  if (napi_open_handle_scope(env, &scope) != napi_ok) return;
  napi_value receiver, onRing, result;
  napi_get_global(env, &receiver);
  napi_get_reference_value(env, watched.onRing, &onRing);
  // Node runs what was promised meanwhile after it.
  if (napi_make_callback(env, watched.context, receiver, onRing, 0, nullptr, &result) == napi_pending_exception) {
    napi_value error;
    if (napi_get_and_clear_last_exception(env, &error) == napi_ok) napi_fatal_exception(env, error);
  }
  napi_close_handle_scope(env, scope);
}

void readable(void* handle, int, int) {
  auto& watched = *static_cast<Watched*>(EventLoopApi::find()->getData(handle));
  // Of an end that is closed the loop would be told for ever; that the peer has gone is known by its other socket.
  if (!watched.onlyWatches && !silence(watched.descriptor)) watched.api->pollStop(handle);
  callBack(watched);
}

class Bell final : public Napi::ObjectWrap<Bell> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "Bell",
                       {InstanceMethod<&Bell::ring>("ring"), InstanceMethod<&Bell::ref>("ref"), InstanceMethod<&Bell::unref>("unref"),
                        InstanceMethod<&Bell::close>("close")});
  }

  explicit Bell(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    const Napi::Env env = info.Env();
    const int descriptor = static_cast<int>(wholeNumber(info, 0, "descriptor", 0, INT32_MAX));
    if (!info[1].IsFunction()) throw Napi::TypeError::New(env, "onRing: expected a function");
    uv_loop_s* loop = nullptr;
    const EventLoopApi* api = EventLoopApi::find();
    if (api == nullptr || napi_get_uv_event_loop(env, &loop) != napi_ok) throw Napi::Error::New(env, "this runtime does not show its event loop");
    void* handle = std::calloc(1, api->handleSize(EventLoopApi::kPollType));
    if (handle == nullptr || api->pollInit(loop, handle, descriptor) != 0) {
      std::free(handle);
      throw Napi::Error::New(env, "the descriptor cannot be watched");
    }
    if (!info[2].ToBoolean()) OwnedDescriptors::all().remove(descriptor);
    watched_ = new Watched{api, handle, descriptor, info[2].ToBoolean(), env};
    api->setData(handle, watched_);
    napi_create_reference(env, info[1], 1, &watched_->onRing);
    napi_async_init(env, nullptr, Napi::String::New(env, "zerohop:bell"), &watched_->context);
    napi_add_async_cleanup_hook(env, [](napi_async_cleanup_hook_handle, void* watched) { endWatched(*static_cast<Watched*>(watched)); }, watched_, &watched_->hook);
    api->unref(handle);
    api->pollStart(handle, EventLoopApi::kReadable, readable);
    Ref();  // the loop calls it
  }

 private:
  void ring(const Napi::CallbackInfo&) {
    if (watched_ != nullptr) zerohop::ring(watched_->descriptor);
  }

  void ref(const Napi::CallbackInfo&) {
    if (watched_ != nullptr) watched_->api->ref(watched_->handle);
  }

  void unref(const Napi::CallbackInfo&) {
    if (watched_ != nullptr) watched_->api->unref(watched_->handle);
  }

  // May be called twice.
  void close(const Napi::CallbackInfo&) {
    if (watched_ == nullptr) return;
    endWatched(*std::exchange(watched_, nullptr));
    Unref();
  }

  Watched* watched_ = nullptr;
};

}  // namespace

Napi::Function defineBell(Napi::Env env) { return Bell::define(env); }

}  // namespace zerohop

#endif
