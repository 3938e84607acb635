#include "loop_questions.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "arguments.h"
#include "ort/arena.h"
#include "ort/heap.h"
#include "ort/mapped_files.h"
#include "ort/session_table.h"
#include "run_arguments.h"
#include "staging_pool.h"
#include "tensor_wrap.h"
#include "value_wrap.h"

namespace zerohop {

namespace {

using ort::Completion;
using ort::Place;

std::shared_ptr<ort::Session> openSessionOf(ort::RunLoop& loop, std::uint32_t sessionId) {
  auto session = loop.sessions.find(sessionId);
  if (session == nullptr) throw ort::OrtError("The session was closed.");
  return session;
}

// A copy of a model's bytes: the view's own may go with the isolate while threads still read them. Openings that are asked for at
// once share one.
std::shared_ptr<char[]> copiedBytes(std::uint64_t bytesId, Napi::Uint8Array view) {
  static std::mutex mutex;
  static auto& copies = *new std::map<std::uint64_t, std::weak_ptr<char[]>>;
  const std::lock_guard lock(mutex);
  for (auto at = copies.begin(); at != copies.end();) at = at->second.expired() ? copies.erase(at) : std::next(at);
  if (const auto found = copies.find(bytesId); found != copies.end()) {
    if (auto bytes = found->second.lock()) return bytes;
  }
  std::shared_ptr<char[]> bytes(new char[view.ByteLength()]);
  std::memcpy(bytes.get(), view.Data(), view.ByteLength());
  copies[bytesId] = bytes;
  return bytes;
}

}  // namespace

std::uint32_t smallNumber(const Napi::CallbackInfo& info, std::size_t index, const char* name) {
  return static_cast<std::uint32_t>(wholeNumber(info, index, name, 0, UINT32_MAX));
}

std::uint64_t questionId(const Napi::CallbackInfo& info) {
  return static_cast<std::uint64_t>(wholeNumber(info, 0, "questionId", 0, kMostSafeInteger));
}

void askOpen(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto sessionId = smallNumber(info, 1, "sessionId");
  ort::ModelSource source;
  std::shared_ptr<char[]> bytes;
  if (info[2].IsTypedArray()) {
    Napi::Uint8Array view = info[2].As<Napi::Uint8Array>();
    source.byteLength = view.ByteLength();
    source.bytesId = static_cast<std::uint64_t>(wholeNumber(info, 3, "bytesId", 0, kMostSafeInteger));
    bytes = copiedBytes(source.bytesId, view);
    source.bytes = bytes.get();
  } else {
    source.path = info[2].ToString();
  }
  const bool shared = info[5].ToBoolean();
  loop.ask(questionId(info), [&loop, sessionId, source, bytes, settings = settingsFrom(info[4]), shared](Completion& done) {
    done.session = ort::processSessions().open(ort::OrtLibrary::opened(), source, settings, shared, loop.opening);
    loop.sessions.set(sessionId, done.session);
  });
}

void askRunSample(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto sessionId = smallNumber(info, 1, "sessionId");
  auto feeds = std::make_shared<ort::ValueCopies>(valuesFrom(info[2]));
  const auto wanted = dimsFrom(info[3]);
  const bool keeps = info[4].ToBoolean();
  loop.ask(questionId(info), [&loop, sessionId, feeds, wanted, keeps](Completion& done) {
    const auto session = openSessionOf(loop, sessionId);
    std::vector<Place> inputs(feeds->size()), outputs(session->outputs.size());
    for (std::size_t index = 0; index < inputs.size(); ++index) {
      if ((*feeds)[index]) inputs[index].kind = Place::Kind::kApart;
    }
    for (const std::int64_t index : wanted) outputs.at(static_cast<std::size_t>(index)).kind = Place::Kind::kApart;
    ort::PreparedRun run(session, {}, inputs, outputs);
    done.startMs = ort::nowMs();
    done.outputs = run.run(loop.runOptions(*session), *feeds);
    if (!keeps) done.outputs.clear();
  });
}

void askClose(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto sessionId = smallNumber(info, 1, "sessionId");
  loop.ask(questionId(info), [&loop, sessionId](Completion&) {
    auto session = loop.sessions.find(sessionId);
    const bool large = session != nullptr && session->large;
    const std::weak_ptr<ort::Session> released = std::exchange(session, nullptr);
    loop.sessions.drop(sessionId);
    processPool().trim();
    if (large && released.expired()) ort::giveBackFreeMemory();
  });
}

void askShrinkArena(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto sessionId = smallNumber(info, 1, "sessionId");
  loop.ask(questionId(info), [&loop, sessionId](Completion&) { ort::shrinkArena(*openSessionOf(loop, sessionId)); });
}

void askEnterPages(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto sessionId = smallNumber(info, 1, "sessionId");
  loop.ask(questionId(info), [&loop, sessionId](Completion&) {
    const auto session = openSessionOf(loop, sessionId);
    if (!session->path.empty()) ort::enterResidentPages(session->path, [&loop] { return !loop.ending(); });
  });
}

Napi::Value arenaOf(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto session = loop.sessions.find(smallNumber(info, 0, "sessionId"));
  const auto stats = session == nullptr ? std::nullopt : ort::arenaStats(*session);
  if (!stats) return info.Env().Null();
  auto object = Napi::Object::New(info.Env());
  object.Set("id", static_cast<double>(session->id));
  object.Set("totalBytes", static_cast<double>(stats->totalBytes));
  object.Set("inUseBytes", static_cast<double>(stats->inUseBytes));
  object.Set("mostInUseBytes", static_cast<double>(stats->mostInUseBytes));
  return object;
}

Napi::Value noteOf(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto session = loop.sessions.find(smallNumber(info, 0, "sessionId"));
  return Napi::String::New(info.Env(), session == nullptr ? "" : session->note(info[1].ToString()));
}

void setNote(ort::RunLoop& loop, const Napi::CallbackInfo& info) {
  const auto session = loop.sessions.find(smallNumber(info, 0, "sessionId"));
  if (session != nullptr) session->setNote(info[1].ToString(), info[2].ToString());
}

}  // namespace zerohop
