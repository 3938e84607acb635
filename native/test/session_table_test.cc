#include "ort/session_table.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

class SessionTableTest : public FakeOrtTest {
 protected:
  SessionTableTest() { std::filesystem::create_directories(folder); }

  ModelSource file(const std::string& name, const std::string& content = "a model") {
    const auto path = folder / name;
    std::ofstream(path) << content;
    return {path.u8string(), nullptr, 0, 0};
  }
  std::shared_ptr<Session> get(const ModelSource& source, const std::vector<SessionSetting>& settings = {}, bool shared = true) {
    Opening opening;
    return table.open(library, source, settings, shared, opening);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    FakeOrtTest::TearDown();
  }

  SessionTable table;
  TestSlot slot;
  const std::filesystem::path folder = std::filesystem::u8path(testing::TempDir()) / ("zerohop-" + std::to_string(getpid()));
};

TEST_F(SessionTableTest, OpensTheModelASecondTimeForRunsThatAreAlone) {
  const auto session = get(file("plus-one"), {{"intraOpNumThreads", "", "1", {}}, {"secondThreads", "", "4", {}}});
  EXPECT_EQ(counts.sessions, 2);
  const auto run = slot.prepare(session);
  ValueCopies none;
  run->run(nullptr, none);
  EXPECT_EQ(counts.threads, 1);
  run->run(nullptr, none, true);
  EXPECT_EQ(counts.threads, 4);
}

TEST_F(SessionTableTest, DoesWithoutTheSecondWhereItCannotBeOpened) {
  const auto session = get(file("few-threads"), {{"intraOpNumThreads", "", "1", {}}, {"secondThreads", "", "4", {}}});
  ValueCopies none;
  slot.prepare(session)->run(nullptr, none, true);
  EXPECT_EQ(counts.threads, 1);
}

TEST_F(SessionTableTest, RunsOnceWhatFailsForAnotherReasonThanMemory) {
  const auto session = get(file("refuses-on-many"), {{"intraOpNumThreads", "", "1", {}}, {"secondThreads", "", "4", {}}});
  ValueCopies none;
  EXPECT_THROW(slot.prepare(session)->run(nullptr, none, true), OrtError);
  EXPECT_EQ(counts.threads, 4);
}

TEST_F(SessionTableTest, RunsWithoutTheSecondWhatHasNoMemoryThere) {
  const auto session = get(file("fails-on-many"), {{"intraOpNumThreads", "", "1", {}}, {"secondThreads", "", "4", {}}});
  ValueCopies none;
  slot.prepare(session)->run(nullptr, none, true);
  EXPECT_EQ(counts.threads, 1);
  EXPECT_EQ(counts.runs, 2);
}

TEST_F(SessionTableTest, GivesTheSameSessionForTheSameFileAndSettings) {
  const ModelSource source = file("plus-one");
  const auto first = get(source), second = get(source);
  EXPECT_EQ(first, second);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_NE(get(source, {{"intraOpNumThreads", "", "2", {}}}), first);
  EXPECT_NE(get(source, {}, false), first);
  EXPECT_EQ(counts.opened, 3);
}

TEST_F(SessionTableTest, ReleasesASessionWithTheLastWhoHoldsIt) {
  const ModelSource source = file("plus-one");
  auto first = get(source), second = get(source);
  first.reset();
  EXPECT_EQ(counts.sessions, 1);
  second.reset();
  EXPECT_EQ(counts.sessions, 0);
  EXPECT_EQ(table.size(), 0u);
  get(source);
  EXPECT_EQ(counts.opened, 2);
}

TEST_F(SessionTableTest, OpensAFileAnewThatHasChanged) {
  const auto first = get(file("plus-one", "a model"));
  const auto second = get(file("plus-one", "another, longer model"));
  EXPECT_NE(first, second);
}

// As an ONNX file names a file of weights, `before` bytes from its beginning.
std::string naming(const std::string& location, std::size_t before = 0) {
  return std::string(before, 'x') + "\x0a\x08location\x12" + static_cast<char>(location.size()) + location + "the rest";
}

// The same, with its fields the other way round, as who writes them may have them.
std::string namingBackwards(const std::string& location, std::size_t before = 0) {
  return std::string(before, 'x') + "\x12" + static_cast<char>(location.size()) + location + "\x0a\x08location" + "the rest";
}

TEST_F(SessionTableTest, OpensAFileAnewWhoseWeightsInOtherFilesHaveChanged) {
  std::filesystem::create_directories(folder / "weights");
  // The name lies across two pieces in which a file is read, and at its end.
  for (const std::size_t before : {std::size_t{0}, (std::size_t{1} << 20) - 5, (std::size_t{2} << 20) - 20}) {
    using Naming = std::string (*)(const std::string&, std::size_t);
    const std::vector<std::pair<std::string, Naming>> entries = {{"plus-one.data", naming}, {"weights/w.bin", naming}, {"backwards.data", namingBackwards}};
    for (const auto& [weights, entry] : entries) {
      const ModelSource source = file("plus-one", entry(weights, before));
      file(weights, "weights");
      const auto first = get(source);
      EXPECT_EQ(get(source), first);
      file(weights, "other weights");
      EXPECT_NE(get(source), first) << weights << " named at " << before;
    }
  }
}

std::string varint(std::size_t value) {
  return value < 0x80 ? std::string(1, static_cast<char>(value)) : static_cast<char>((value & 0x7f) | 0x80) + varint(value >> 7);
}

// A field of the protobuf format whose content has a length.
std::string field(std::size_t number, const std::string& content) { return varint(number << 3 | 2) + varint(content.size()) + content; }

std::string entryNaming(const std::string& location) { return field(13, field(1, "location") + field(2, location)); }

TEST_F(SessionTableTest, FindsTheNamesOfWeightsBesideThoseThatAModelHasInItself) {
  const auto initializer = [](const std::string& content) { return field(5, content); };
  const std::string weights(1 << 20, 'x');
  const std::string inner = initializer(field(8, "w") + field(9, weights + entryNaming("no-name.data") + weights));
  const auto named = [&](const std::string& name) { return initializer(field(8, name) + entryNaming(name + ".data")); };
  const std::string graph = field(7, named("first") + inner + named("between") + inner) + field(8, "opset") + field(25, entryNaming("last.data"));
  const std::string ofName = "plus-one";  // by which the library of these tests knows what it opens
  for (const std::string& name : {"first", "between", "last"}) {
    const ModelSource source = file(ofName, graph);
    file(name + ".data", "weights");
    const auto first = get(source);
    EXPECT_EQ(get(source), first);
    file("no-name.data", "that is a part of the weights, " + name);
    EXPECT_EQ(get(source), first) << name;
    file(name + ".data", "other weights");
    EXPECT_NE(get(source), first) << name;
  }
  // What was cut off is searched as a whole.
  const ModelSource cut = file(ofName, graph.substr(0, graph.size() / 2));
  const auto first = get(cut);
  file("no-name.data", "by now a name like others");
  EXPECT_NE(get(cut), first);
}

TEST_F(SessionTableTest, FindsANameBehindMoreFieldsThanAreLookedAt) {
  std::string fields;
  for (int count = 0; count < 1'100'000; ++count) fields += std::string("\x08\x01", 2);
  const ModelSource source = file("plus-one", fields + entryNaming("late.data"));
  file("late.data", "weights");
  const auto first = get(source);
  file("late.data", "other weights");
  EXPECT_NE(get(source), first);
}

TEST_F(SessionTableTest, SharesAFileWhateverElseChangesBesideIt) {
  const ModelSource source = file("plus-one", naming("missing.data"));
  const auto first = get(source);
  for (int count = 0; count < 300; ++count) file("other-" + std::to_string(count));
  EXPECT_EQ(get(source), first);
  file("missing.data");
  EXPECT_NE(get(source), first);
}

TEST_F(SessionTableTest, KnowsBytesByTheirNumber) {
  const std::string model = "plus-one";
  const auto bytes = [&](std::uint64_t id) { return ModelSource{"", model.data(), model.size(), id}; };
  const auto first = get(bytes(1));
  EXPECT_EQ(get(bytes(1)), first);
  EXPECT_NE(get(bytes(2)), first);
}

TEST_F(SessionTableTest, OpensOnceWhatSeveralAskForAtOnce) {
  const ModelSource slow = file("slow-to-open");
  std::vector<std::shared_ptr<Session>> sessions(4);
  std::vector<std::thread> threads;
  for (auto& session : sessions) threads.emplace_back([&] { session = get(slow); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts.opened, 1);
  for (const auto& session : sessions) EXPECT_EQ(session, sessions[0]);
}

TEST_F(SessionTableTest, EndsAnOpeningThatIsCancelledAndHasTheNextInLineOpenItself) {
  const ModelSource never = file("never-open");
  Opening first, second;
  const auto fails = [&](Opening& opening) { EXPECT_THROW(table.open(library, never, {}, true, opening), OrtError); };
  std::thread opens([&] { fails(first); });
  while (counts.opening == 0) std::this_thread::yield();
  std::thread waits([&] { fails(second); });
  first.cancel();
  opens.join();
  while (counts.opened < 2) std::this_thread::yield();
  second.cancel();
  waits.join();
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(SessionTableTest, DoesNotWaitForAnotherWhoOpensWhenItsOwnOpeningIsCancelled) {
  const ModelSource never = file("never-open");
  Opening first, second;
  std::thread opens([&] { EXPECT_THROW(table.open(library, never, {}, true, first), OrtError); });
  while (counts.opening == 0) std::this_thread::yield();
  std::thread cancels([&] { second.cancel(); });
  EXPECT_THROW(table.open(library, never, {}, true, second), OrtError);
  EXPECT_EQ(counts.opened, 1);
  cancels.join();
  first.cancel();
  opens.join();
}

TEST_F(SessionTableTest, OpensNothingThatWasCancelledBefore) {
  Opening opening;
  opening.cancel();
  EXPECT_THROW(table.open(library, file("plus-one"), {}, true, opening), OrtError);
  EXPECT_EQ(counts.opened, 0);
  opening.reset();
  EXPECT_NE(table.open(library, file("plus-one"), {}, true, opening), nullptr);
}

TEST_F(SessionTableTest, TriesAgainWhatCouldNotBeOpened) {
  const ModelSource broken = file("broken");
  EXPECT_THROW(get(broken), OrtError);
  EXPECT_THROW(get(broken), OrtError);
  EXPECT_EQ(counts.opened, 2);
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace zerohop::ort
