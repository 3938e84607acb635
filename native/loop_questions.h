// What JavaScript asks of a loop for a session, beside batches. Answers come through the loop's completions.
#pragma once

#include <napi.h>

#include "ort/run_loop.h"

namespace zerohop {

std::uint32_t smallNumber(const Napi::CallbackInfo& info, std::size_t index, const char* name);

// The first argument of what is asked.
std::uint64_t questionId(const Napi::CallbackInfo& info);

// (questionId, sessionId, path or bytes, bytesId, settings, shared)
void askOpen(ort::RunLoop& loop, const Napi::CallbackInfo& info);

// (questionId, sessionId, feeds, outputs, keeps): `feeds` by input of the session, `outputs` the indices of those that are to
// be computed; `keeps` whether they are wanted, too.
void askRunSample(ort::RunLoop& loop, const Napi::CallbackInfo& info);

// (questionId, sessionId)
void askClose(ort::RunLoop& loop, const Napi::CallbackInfo& info);

// (questionId, sessionId): see enterResidentPages.
void askEnterPages(ort::RunLoop& loop, const Napi::CallbackInfo& info);

// (questionId, sessionId): has the session's arena give back what nothing uses.
void askShrinkArena(ort::RunLoop& loop, const Napi::CallbackInfo& info);

// (sessionId): what the session's arena holds now; null for a session that has none, or is not open.
Napi::Value arenaOf(ort::RunLoop& loop, const Napi::CallbackInfo& info);

// (sessionId, key): what was noted of the session, by whichever isolate; '' for nothing.
Napi::Value noteOf(ort::RunLoop& loop, const Napi::CallbackInfo& info);

// (sessionId, key, value)
void setNote(ort::RunLoop& loop, const Napi::CallbackInfo& info);

}  // namespace zerohop
