#include "process_wrap.h"

#ifdef __linux__

#include <unistd.h>

#include <system_error>

#include "../arguments.h"
#include "bell.h"
#include "event_loop.h"
#include "file_lock.h"
#include "shared_area.h"
#include "unix_socket.h"

namespace zerohop {

namespace {

// Two rings of 2^30 bytes and their words.
constexpr std::int64_t kMostAreaBytes = (std::int64_t{1} << 31) + 4096;

// An error of the system, with its name as Node has it.
[[noreturn]] void rethrow(Napi::Env env, const std::system_error& error) {
  Napi::Error thrown = Napi::Error::New(env, error.what());
  const int number = error.code().value();
  const char* name = number == ENOENT ? "ENOENT" : number == ECONNREFUSED ? "ECONNREFUSED" : number == EAGAIN ? "EAGAIN" : number == EACCES ? "EACCES" : "ERR_SYSTEM";
  thrown.Set("code", name);
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

// Goes with its last view, in whichever isolate has it.
Napi::Value viewOf(Napi::Env env, SharedArea* area) { return Napi::ArrayBuffer::New(env, area->data(), area->bytes(), finalizeArea, area); }

// (byteLength): { descriptor, bytes }
Napi::Value createArea(const Napi::CallbackInfo& info) {
  int descriptor = -1;
  SharedArea* area = SharedArea::create(static_cast<std::size_t>(wholeNumber(info, 0, "byteLength", 4096, kMostAreaBytes)), descriptor);
  Napi::Object made = Napi::Object::New(info.Env());
  made.Set("descriptor", descriptor);
  made.Set("bytes", viewOf(info.Env(), area));
  return made;
}

// (descriptor, byteLength)
Napi::Value openArea(const Napi::CallbackInfo& info) {
  const auto bytes = static_cast<std::size_t>(wholeNumber(info, 1, "byteLength", 4096, kMostAreaBytes));
  return viewOf(info.Env(), SharedArea::open(descriptorOf(info), bytes));
}

// (bytes): what has it as its memory is empty afterwards. Done twice it does nothing.
Napi::Value releaseArea(const Napi::CallbackInfo& info) {
  if (!info[0].IsArrayBuffer()) throw Napi::TypeError::New(info.Env(), "bytes: expected an ArrayBuffer");
  info[0].As<Napi::ArrayBuffer>().Detach();
  return info.Env().Undefined();
}

Napi::Value connectSocket(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), connectTo(pathOf(info))); }

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
  for (std::uint32_t index = 0; index < received.descriptors.size(); ++index) descriptors.Set(index, received.descriptors[index]);
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("length", static_cast<double>(received.length));
  object.Set("descriptors", descriptors);
  return object;
}

Napi::Value closeDescriptor(const Napi::CallbackInfo& info) {
  close(descriptorOf(info));
  return info.Env().Undefined();
}

// (path): the descriptor that holds the lock, or null.
Napi::Value lock(const Napi::CallbackInfo& info) {
  const int held = lockFile(pathOf(info));
  return held == -1 ? info.Env().Null() : Napi::Value(Napi::Number::New(info.Env(), held));
}

}  // namespace

void exportProcesses(Napi::Env env, Napi::Object exports) {
  if (EventLoopApi::find() == nullptr) return exports.Set("processes", env.Null()), void();
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
  processes.Set("lock", Napi::Function::New<guarded<lock>>(env, "lock"));
  exports.Set("processes", processes);
}

}  // namespace zerohop

#else

namespace zerohop {

void exportProcesses(Napi::Env env, Napi::Object exports) { exports.Set("processes", env.Null()); }

}  // namespace zerohop

#endif
