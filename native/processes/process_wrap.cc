#include "process_wrap.h"

#ifdef __linux__

#include <unistd.h>

#include <memory>
#include <system_error>
#include <utility>

#include "../arguments.h"
#include "bell.h"
#include "event_loop.h"
#include "file_lock.h"
#include "owned_descriptors.h"
#include "shared_area.h"
#include "unix_socket.h"

namespace zerohop {

namespace {

// Two rings of 2^30 bytes and their words.
constexpr std::int64_t kMostAreaBytes = (std::int64_t{1} << 31) + 4096;

const char* nameOf(int number) {
  switch (number) {
    case ENOENT: return "ENOENT";
    case ECONNREFUSED: return "ECONNREFUSED";
    case ECONNRESET: return "ECONNRESET";
    case EPIPE: return "EPIPE";
    case EAGAIN: return "EAGAIN";
    case EACCES: return "EACCES";
    case EMFILE: return "EMFILE";
    default: return "ERR_SYSTEM";
  }
}

// An error of the system, with its name as Node has it.
[[noreturn]] void rethrow(Napi::Env env, const std::system_error& error) {
  Napi::Error thrown = Napi::Error::New(env, error.what());
  thrown.Set("code", nameOf(error.code().value()));
  throw thrown;
}

template <Napi::Value (*Function)(const Napi::CallbackInfo&)>
Napi::Value guarded(const Napi::CallbackInfo& info) {
  try {
    return Function(info);
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::system_error& error) {
    rethrow(info.Env(), error);
  } catch (const std::exception& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

int descriptorOf(const Napi::CallbackInfo& info) { return static_cast<int>(wholeNumber(info, 0, "descriptor", 0, INT32_MAX)); }

std::string pathOf(const Napi::CallbackInfo& info) {
  if (!info[0].IsString()) throw Napi::TypeError::New(info.Env(), "path: expected a string");
  return info[0].As<Napi::String>();
}

Napi::Uint8Array bytesAt(const Napi::CallbackInfo& info, std::size_t index) {
  if (!info[index].IsTypedArray() || info[index].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    throw Napi::TypeError::New(info.Env(), "bytes: expected a Uint8Array");
  }
  return info[index].As<Napi::Uint8Array>();
}

void finalizeArea(Napi::Env, void*, SharedArea* area) { delete area; }

// Goes with its last view, in whichever isolate has it; at once where this runtime has no views of such memory.
Napi::Value viewOf(Napi::Env env, std::unique_ptr<SharedArea> area) {
  const Napi::Value view = Napi::ArrayBuffer::New(env, area->data(), area->bytes(), finalizeArea, area.get());
  static_cast<void>(area.release());
  return view;
}

// (byteLength): { descriptor, bytes }
Napi::Value createArea(const Napi::CallbackInfo& info) {
  int descriptor = -1;
  std::unique_ptr<SharedArea> area(SharedArea::create(static_cast<std::size_t>(wholeNumber(info, 0, "byteLength", 4096, kMostAreaBytes)), descriptor));
  try {
    Napi::Object made = Napi::Object::New(info.Env());
    made.Set("descriptor", descriptor);
    made.Set("bytes", viewOf(info.Env(), std::move(area)));
    return made;
  } catch (...) {
    close(descriptor);
    throw;
  }
}

// (descriptor, byteLength)
Napi::Value openArea(const Napi::CallbackInfo& info) {
  const auto bytes = static_cast<std::size_t>(wholeNumber(info, 1, "byteLength", 4096, kMostAreaBytes));
  return viewOf(info.Env(), std::unique_ptr<SharedArea>(SharedArea::open(descriptorOf(info), bytes)));
}

// (bytes): what has it as its memory is empty afterwards. Done twice it does nothing.
Napi::Value releaseArea(const Napi::CallbackInfo& info) {
  if (!info[0].IsArrayBuffer()) throw Napi::TypeError::New(info.Env(), "bytes: expected an ArrayBuffer");
  info[0].As<Napi::ArrayBuffer>().Detach();
  return info.Env().Undefined();
}

// A descriptor that is this environment's until JavaScript has closed it or handed it over.
Napi::Value owned(Napi::Env env, int descriptor) {
  OwnedDescriptors::all().add(env, descriptor);
  return Napi::Number::New(env, descriptor);
}

Napi::Value connectSocket(const Napi::CallbackInfo& info) { return owned(info.Env(), connectTo(pathOf(info))); }

Napi::Value makeSocketPair(const Napi::CallbackInfo& info) {
  const auto [first, second] = socketPair();
  Napi::Array ends = Napi::Array::New(info.Env(), 2);
  ends.Set(0u, first);
  ends.Set(1u, second);
  return ends;
}

// (descriptor): { process, user }
Napi::Value peer(const Napi::CallbackInfo& info) {
  const Peer found = peerOf(descriptorOf(info));
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("process", static_cast<double>(found.process));
  object.Set("user", static_cast<double>(found.user));
  return object;
}

// (descriptor, bytes, descriptors)
Napi::Value send(const Napi::CallbackInfo& info) {
  const Napi::Uint8Array bytes = bytesAt(info, 1);
  std::vector<int> descriptors;
  if (info[2].IsArray()) {
    const Napi::Array given = info[2].As<Napi::Array>();
    for (std::uint32_t index = 0; index < given.Length(); ++index) {
      descriptors.push_back(static_cast<int>(wholeNumber(info.Env(), given.Get(index), "descriptors", 0, INT32_MAX)));
    }
  }
  sendAll(descriptorOf(info), bytes.Data(), bytes.ByteLength(), descriptors);
  return info.Env().Undefined();
}

// (descriptor, into): { length, descriptors }
Napi::Value receiveInto(const Napi::CallbackInfo& info) {
  Napi::Uint8Array into = bytesAt(info, 1);
  const Received received = receive(descriptorOf(info), into.Data(), into.ByteLength());
  Napi::Array descriptors = Napi::Array::New(info.Env(), received.descriptors.size());
  for (std::uint32_t index = 0; index < received.descriptors.size(); ++index) descriptors.Set(index, owned(info.Env(), received.descriptors[index]));
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("length", static_cast<double>(received.length));
  object.Set("descriptors", descriptors);
  return object;
}

Napi::Value closeDescriptor(const Napi::CallbackInfo& info) {
  const int descriptor = descriptorOf(info);
  OwnedDescriptors::all().remove(descriptor);
  close(descriptor);
  return info.Env().Undefined();
}

// (descriptor): somebody else closes it from now on.
Napi::Value handOver(const Napi::CallbackInfo& info) {
  OwnedDescriptors::all().remove(descriptorOf(info));
  return info.Env().Undefined();
}

// (path): the descriptor that holds the lock, or null.
Napi::Value lock(const Napi::CallbackInfo& info) {
  const int held = lockFile(pathOf(info));
  return held == -1 ? info.Env().Null() : owned(info.Env(), held);
}

void closeOwned(void* env) {
  const std::unique_ptr<napi_env> owner(static_cast<napi_env*>(env));
  OwnedDescriptors::all().closeAll(*owner);
}

}  // namespace

void exportProcesses(Napi::Env env, Napi::Object exports) {
  if (EventLoopApi::find() == nullptr) return exports.Set("processes", env.Null()), void();
  // Of a worker thread that is terminated, too. The argument is of this load alone: Node takes no hook twice.
  napi_add_env_cleanup_hook(env, closeOwned, new napi_env(env));
  Napi::Object processes = Napi::Object::New(env);
  processes.Set("Bell", defineBell(env));
  processes.Set("createArea", Napi::Function::New<guarded<createArea>>(env, "createArea"));
  processes.Set("openArea", Napi::Function::New<guarded<openArea>>(env, "openArea"));
  processes.Set("releaseArea", Napi::Function::New<guarded<releaseArea>>(env, "releaseArea"));
  processes.Set("connect", Napi::Function::New<guarded<connectSocket>>(env, "connect"));
  processes.Set("socketPair", Napi::Function::New<guarded<makeSocketPair>>(env, "socketPair"));
  processes.Set("peer", Napi::Function::New<guarded<peer>>(env, "peer"));
  processes.Set("send", Napi::Function::New<guarded<send>>(env, "send"));
  processes.Set("receive", Napi::Function::New<guarded<receiveInto>>(env, "receive"));
  processes.Set("close", Napi::Function::New<guarded<closeDescriptor>>(env, "close"));
  processes.Set("handOver", Napi::Function::New<guarded<handOver>>(env, "handOver"));
  processes.Set("lock", Napi::Function::New<guarded<lock>>(env, "lock"));
  exports.Set("processes", processes);
}

}  // namespace zerohop

#else

namespace zerohop {

void exportProcesses(Napi::Env env, Napi::Object exports) { exports.Set("processes", env.Null()); }

}  // namespace zerohop

#endif
